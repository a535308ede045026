// One live process per run directory. The lock belongs to the process, not to the file: it ends
// with the process, however that dies, and needs no cleaning up.
#pragma once

#include <filesystem>

#include "runtime/result.hpp"

namespace omni {

class RunLock {
 public:
  // Refuses at once, with ErrorKind::usage and the other's host:pid, when somebody holds the
  // directory.
  static Result<RunLock> acquire(const std::filesystem::path& directory);
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

 private:
  explicit RunLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace omni
