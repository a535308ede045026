// How much memory this process may have, in bytes.
#pragma once

#include <cstddef>
#include <filesystem>

namespace omni {

// Of the machine, or of the control groups (v1, v2) of this process: the smallest.
std::size_t physical_memory();
std::size_t control_group_memory(const std::filesystem::path& root);  // root: "/" but in tests

// Address space that `ulimit -v` and `-d` leave, and that a machine without overcommit grants.
bool can_map(std::size_t bytes);
std::size_t mappable_memory();  // to a mebibyte

}  // namespace omni
