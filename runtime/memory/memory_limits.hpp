// How much memory this process may have, and has, in bytes.
#pragma once

#include <cstddef>
#include <filesystem>

namespace omni {

// The smallest of: the machine's memory, the limits of this process's control groups (v1, v2).
std::size_t physical_memory();
std::size_t control_group_memory(const std::filesystem::path& root);  // root: "/" but in tests

// Address space that `ulimit -v` and `-d` leave, and that a machine without overcommit grants.
bool can_map(std::size_t bytes);
std::size_t mappable_memory();  // to a mebibyte

// What this process has of it; 0 where the system does not tell.
std::size_t resident_memory();
std::size_t resident_data();         // of it, what is in no file
std::size_t peak_resident_memory();  // since the process began

}  // namespace omni
