// These functions return, in bytes, how much memory this process may use, and how much it uses.
#pragma once

#include <cstddef>
#include <filesystem>

namespace omni {

// Returns the smaller of the machine's memory and control_group_memory().
std::size_t physical_memory();
// Returns the lowest limit of this process's control groups (v1, v2) and of those above them;
// without a limit the largest number. Only tests pass another root than "/".
std::size_t control_group_memory(const std::filesystem::path& root);

// Returns whether this much address space can be mapped now. It is limited by `ulimit -v` and `-d`,
// and on a machine without overcommit.
bool can_map(std::size_t bytes);
std::size_t mappable_memory();  // exact to 1 MiB

// Returns how much main memory this process takes; 0 where the system does not tell.
std::size_t resident_memory();
std::size_t resident_data();         // the part of it that no file backs
std::size_t peak_resident_memory();  // since the process began

}  // namespace omni
