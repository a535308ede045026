// This file replaces file functions of the C library, and tests that the replacements really let
// operations fail.
#include "tests/fault/interpose.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <utility>

#include "runtime/files.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {
namespace {

FileSession* current_session = nullptr;

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

std::string path_of(int descriptor) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  return length < 0 ? "" : std::string(path.data(), static_cast<std::size_t>(length));
}

FileSession::Verdict judge(FileCall call, std::string path, std::string target = "",
                           std::string bytes = "", bool creates = false) {
  if (current_session == nullptr || !current_session->concerns(path))
    return FileSession::Verdict::real;
  return current_session->judge(
      {call, std::move(path), std::move(target), std::move(bytes), creates});
}

bool fails(FileCall call, std::string path, std::string target = "") {
  return judge(call, std::move(path), std::move(target)) == FileSession::Verdict::fail;
}

}  // namespace

FileSession::FileSession(std::filesystem::path folder, FileFault fault)
    : folder_(std::move(folder)), fault_(fault) {
  current_session = this;
}
FileSession::~FileSession() { current_session = nullptr; }

bool FileSession::fault_reached() const {
  return fault_.at > 0 && std::ssize(operations_) >= fault_.at;
}

bool FileSession::concerns(const std::string& path) const {
  return path.starts_with(folder_.string());
}

FileSession::Verdict FileSession::judge(FileOperation operation) {
  const bool can_be_half = operation.call == FileCall::write && operation.bytes.size() > 1;
  operations_.push_back(std::move(operation));
  const auto count = std::ssize(operations_);
  if (fault_.at == 0 || count < fault_.at || (count > fault_.at && !fault_.from_then_on))
    return Verdict::real;
  errno = fault_.code;
  if (fault_.code != 0) return Verdict::fail;
  return can_be_half ? Verdict::half : Verdict::real;
}

}  // namespace omni::test

using namespace omni::test;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  static const auto next = real<int (*)(const char*, int, ...)>("open");
  const auto verdict = judge(FileCall::open, path, "", "", (flags & O_CREAT) != 0);
  return verdict == FileSession::Verdict::fail ? -1 : next(path, flags, mode);
}

ssize_t read(int descriptor, void* buffer, size_t size) {
  static const auto next = real<ssize_t (*)(int, void*, size_t)>("read");
  if (current_session != nullptr && fails(FileCall::read, path_of(descriptor))) return -1;
  return next(descriptor, buffer, size);
}

ssize_t write(int descriptor, const void* buffer, size_t size) {
  static const auto next = real<ssize_t (*)(int, const void*, size_t)>("write");
  if (current_session == nullptr) return next(descriptor, buffer, size);
  const auto verdict =
      judge(FileCall::write, path_of(descriptor), "", {static_cast<const char*>(buffer), size});
  if (verdict == FileSession::Verdict::fail) return -1;
  return next(descriptor, buffer, verdict == FileSession::Verdict::half ? size / 2 : size);
}

int fsync(int descriptor) {
  static const auto next = real<int (*)(int)>("fsync");
  if (current_session != nullptr && fails(FileCall::fsync, path_of(descriptor))) return -1;
  return next(descriptor);
}

int close(int descriptor) {
  static const auto next = real<int (*)(int)>("close");
  const bool failing = current_session != nullptr && fails(FileCall::close, path_of(descriptor));
  const int code = errno;
  const int status = next(descriptor);  // Linux closes it in any case
  if (!failing) return status;
  errno = code;
  return -1;
}

int rename(const char* from, const char* to) {
  static const auto next = real<int (*)(const char*, const char*)>("rename");
  return fails(FileCall::rename, from, to) ? -1 : next(from, to);
}

int mkdir(const char* path, mode_t mode) {
  static const auto next = real<int (*)(const char*, mode_t)>("mkdir");
  return fails(FileCall::mkdir, path) ? -1 : next(path, mode);
}

int unlink(const char* path) {
  static const auto next = real<int (*)(const char*)>("unlink");
  return fails(FileCall::unlink, path) ? -1 : next(path);
}

// std::filesystem::remove_all calls the next two functions.
int remove(const char* path) noexcept {
  static const auto next = real<int (*)(const char*)>("remove");
  if (current_session != nullptr) {
    struct stat status {};
    const bool folder = ::lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
    if (fails(folder ? FileCall::rmdir : FileCall::unlink, path)) return -1;
  }
  return next(path);
}

int unlinkat(int folder, const char* name, int flags) {
  static const auto next = real<int (*)(int, const char*, int)>("unlinkat");
  if (current_session != nullptr) {
    const std::string path = folder == AT_FDCWD ? name : path_of(folder) + "/" + name;
    if (fails((flags & AT_REMOVEDIR) != 0 ? FileCall::rmdir : FileCall::unlink, path)) return -1;
  }
  return next(folder, name, flags);
}

}  // extern "C"

namespace omni::test {
namespace {

std::vector<FileCall> calls(const FileSession& recorded) {
  std::vector<FileCall> calls;
  for (const FileOperation& operation : recorded.operations()) calls.push_back(operation.call);
  return calls;
}

TEST(Interpose, RecordsAnAtomicWriteInOrder) {
  const TemporaryDirectory folder;
  const FileSession recorded(folder.path());
  ASSERT_TRUE(write_file_atomically(folder / "a", "text"));
  using enum FileCall;
  EXPECT_EQ(calls(recorded), (std::vector{open, write, fsync, close, rename, open, fsync, close}));
  EXPECT_EQ(recorded.operations()[1].bytes, "text");
  EXPECT_EQ(recorded.operations()[4].target, (folder / "a").string());
}

TEST(Interpose, SeesMakingAndRemovingFolders) {
  const TemporaryDirectory folder;
  const FileSession recorded(folder.path());
  std::filesystem::create_directory(folder / "a");
  put(folder / "a" / "file", "");
  std::filesystem::remove_all(folder / "a");
  int made = 0, unlinked = 0, removed = 0;
  for (const FileCall call : calls(recorded)) {
    made += call == FileCall::mkdir;
    unlinked += call == FileCall::unlink;
    removed += call == FileCall::rmdir;
  }
  EXPECT_EQ(made, 1);
  EXPECT_EQ(unlinked, 1);
  EXPECT_EQ(removed, 1);
}

// If an operation of an atomic write fails, an error is reported, or the write is complete. The
// file is then the old or the new one.
TEST(Interpose, EveryFaultOfAnAtomicWriteIsReportedOrHarmless) {
  int reported = 0;
  for (const int code : {ENOSPC, EIO, EINTR, 0}) {
    for (int at = 1;; ++at) {
      const TemporaryDirectory folder;
      put(folder / "a", "old");
      Status status;
      bool reached = false;
      {
        const FileSession faulty(folder.path(), {.at = at, .code = code});
        status = write_file_atomically(folder / "a", "new text");
        reached = faulty.fault_reached();
      }
      if (!reached) break;
      const std::string now = get(folder / "a");
      if (status) {
        EXPECT_EQ(now, "new text") << code << " at " << at;
      } else {
        ++reported;
        EXPECT_TRUE(now == "old" || now == "new text") << now;
        EXPECT_NE(status.error().message().find(folder.path().string()), std::string::npos);
        EXPECT_TRUE(code == ENOSPC || code == EIO) << "EINTR and short writes are retried";
      }
      EXPECT_EQ(entries_in(folder.path()), 1) << code << " at " << at;
    }
  }
  // With ENOSPC and with EIO, seven of the eight operations are reported. The eighth closes the
  // folder, by which nothing can be lost.
  EXPECT_EQ(reported, 2 * 7);
}

}  // namespace
}  // namespace omni::test
