// File operations of this executable, counted, recorded and made to fail: the C library's functions
// are replaced (interpose_test.cpp), the code under test is not touched. Only operations under one
// folder count, so the test's own output and libraries are left alone. One session at a time, one
// thread.
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

// At the at-th operation (from 1): errno `code`; code 0 lets a write write only half.
// `from_then_on` repeats it for every later one, as a full disk does.
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

  // For the replacements: notes the operation and says whether it is to fail. Nullptr outside a
  // session.
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
