// One process per run directory. The lock belongs to the process: it ends with the process, however
// that ends, and leaves nothing to clean up.
#pragma once

#include <filesystem>

#include "runtime/files.hpp"
#include "runtime/result.hpp"

namespace omni {

class RunLock {
 public:
  // Fails at once, with ErrorKind::usage and the host:pid of the process that holds the directory.
  static Result<RunLock> acquire(const std::filesystem::path& directory);

 private:
  explicit RunLock(int descriptor) : descriptor_(descriptor) {}
  Descriptor descriptor_;
};

}  // namespace omni
