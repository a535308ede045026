// The lock is an flock() on the file `lock` in the directory. The text in the file tells people
// which process holds the lock.
#include "scheduling/checkpoint/run_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/shown_name.hpp"
#include "runtime/slurm_job.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

constexpr off_t kLongestIdentity = 300;

std::string identity() {
  const std::string job = slurm::job();
  return fmt::format("{}:{}{}{}\n", own_host(), ::getpid(), job.empty() ? "" : ":", job);
}

std::string holder(int descriptor) {
  std::array<char, kLongestIdentity> text{};
  const ssize_t count = ::pread(descriptor, text.data(), text.size(), 0);
  if (count <= 0) return "unknown";
  const std::string_view read(text.data(), count);
  return shown_name(read.substr(0, read.find('\n')));
}

Error cannot_write(const fs::path& path, int code) {
  return {ErrorKind::usage, path.string(),
          "cannot write in the run directory: " + std::generic_category().message(code),
          "choose a directory with write permission and free space"};
}

}  // namespace

Result<RunLock> RunLock::acquire(const fs::path& directory) {
  const fs::path path = directory / "lock";
  const int descriptor =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (descriptor < 0) return cannot_write(path, errno);
  RunLock lock(descriptor);
  struct stat status {};
  // The contents of the lock file are replaced below. So a link, or a file that is no lock file, is
  // refused.
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink > 1 ||
      status.st_size > kLongestIdentity)
    return Error{ErrorKind::usage, path.string(), "is not the lock of a run",
                 "look at it and remove it, or choose another directory"};

  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      return Error{ErrorKind::usage, directory.string(),
                   fmt::format("another run is using this directory: {}", holder(descriptor)),
                   "wait for it, stop it, or choose another directory"};
    // Some file systems have no locks, such as Lustre without its flock option. A run can still use
    // them, with a warning.
    log::warn("{}: this file system has no locks; make sure that no other run uses the directory",
              directory.string());
  }
  const std::string text = identity();
  if (::ftruncate(descriptor, 0) != 0) return cannot_write(path, errno);
  const ssize_t count = ::pwrite(descriptor, text.data(), text.size(), 0);
  if (count != static_cast<ssize_t>(text.size()))
    return cannot_write(path, count < 0 ? errno : ENOSPC);
  return lock;
}

}  // namespace omni
