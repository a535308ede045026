// An OutputFile is a file that the command line names as an output. The only copy of a user's data
// may be there. So an existing file is replaced only if this program could have written it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

struct OutputFile {
  std::string option;  // the option that names the file
  std::filesystem::path path;
  std::vector<std::filesystem::path> read, written{};  // other files of the run; "": none
  // `replaceable` is asked about a file that is not empty. If it returns false, `foreign` and
  // `hint` are the error.
  std::function<bool(const std::filesystem::path&)> replaceable;
  std::string foreign;
  std::string hint = "choose a new name";
};

// Returns an error if the file may not be replaced, or if `bytes` could not be written there. It
// changes nothing.
Status check_output(const OutputFile& file, std::uint64_t bytes = 0);

}  // namespace omni
