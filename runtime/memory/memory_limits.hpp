// How much memory this process may have, in bytes.
#pragma once

#include <cstddef>
#include <filesystem>

namespace omni {

// Of the machine, or of the control groups (v1, v2) that this process is in, whichever is least.
std::size_t physical_memory();
std::size_t control_group_memory(const std::filesystem::path& root);  // root: "/" but in tests

// What the limits on address space leave: `ulimit -v` and -d, and a machine that does not promise
// more than it has.
bool can_map(std::size_t bytes);
std::size_t mappable_memory();  // to a mebibyte

}  // namespace omni
