// A file that the command line names to be written. What lies there may be somebody's only copy of
// it, so it is replaced only if the program would have written the like.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

struct OutputFile {
  std::string option;  // that names it
  std::filesystem::path path;
  std::vector<std::filesystem::path> read, written{};  // by the run besides; "": nothing
  // Of a file with something in it. What is said of one that may not be replaced, and what to do.
  std::function<bool(const std::filesystem::path&)> replaceable;
  std::string foreign;
  std::string hint = "choose a new name";
};

// Refuses, too, where so many bytes could not be written. Changes nothing.
Status check_output(const OutputFile& file, std::uint64_t bytes = 0);

}  // namespace omni
