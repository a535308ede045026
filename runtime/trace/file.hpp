// A trace file being written; see records.hpp for its two names.
#pragma once

#include <filesystem>
#include <string_view>

#include "runtime/descriptor.hpp"
#include "runtime/result.hpp"

namespace omni::trace {

// Without finish() the file keeps its .part.
class File {
 public:
  // In a folder that exists. Refuses to overwrite.
  static Result<File> create(const std::filesystem::path& folder, int rank);

  Status write(std::string_view lines);  // whole lines; after a failure the file is closed
  Status finish();

  const std::filesystem::path& path() const { return path_; }

 private:
  File(std::filesystem::path path, int descriptor);
  std::filesystem::path path_;  // without .part
  Descriptor descriptor_;
};

}  // namespace omni::trace
