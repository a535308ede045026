// RunLock makes sure that only one process uses a run directory, if the file system has locks. The
// lock ends with the process, however that ends, and leaves nothing to clean up.
#pragma once

#include <filesystem>

#include "runtime/files.hpp"
#include "runtime/result.hpp"

namespace omni {

class RunLock {
 public:
  // Does not wait: if another process holds the lock, returns ErrorKind::usage with its host:pid.
  static Result<RunLock> acquire(const std::filesystem::path& directory);

 private:
  explicit RunLock(int descriptor) : descriptor_(descriptor) {}
  Descriptor descriptor_;
};

}  // namespace omni
