// FileSession counts, records and fails the file operations of this program. interpose_test.cpp
// replaces the C library's functions, so the tested code stays the same. Only operations in one
// folder count, not those of the test's output and of libraries. One session at a time may exist,
// in one thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace omni::test {

enum class FileCall { open, read, write, fsync, close, rename, mkdir, unlink, rmdir };

struct FileOperation {
  FileCall call;
  std::string path, target;  // target: of a rename
  std::string bytes;         // of a write
  bool creates = false;      // of an open
};

// The operation number `at`, counted from 1, fails with errno `code`. With code 0 nothing fails,
// but a write writes only half. With `from_then_on` all later operations fail, too, as on a full
// disk.
struct FileFault {
  int at = 0;
  int code = 0;
  bool from_then_on = false;
};

class FileSession {
 public:
  explicit FileSession(std::filesystem::path folder, FileFault fault = {});
  ~FileSession();
  FileSession(const FileSession&) = delete;
  FileSession& operator=(const FileSession&) = delete;

  const std::vector<FileOperation>& operations() const { return operations_; }
  bool fault_reached() const;

  // The replaced functions use these two. active() returns nullptr without a session. judge()
  // records an operation and decides whether it fails.
  static FileSession* active();
  enum class Verdict { real, fail, half };
  Verdict judge(FileOperation operation);
  bool concerns(const std::string& path) const;

 private:
  std::filesystem::path folder_;
  FileFault fault_;
  std::vector<FileOperation> operations_;
};

}  // namespace omni::test
