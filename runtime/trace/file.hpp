// This header writes a trace file. The file has another name until it is complete, as records.hpp
// explains.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "runtime/files.hpp"
#include "runtime/result.hpp"

namespace omni::trace {

// A File is a trace file that is being written. Its name ends with .part until finish() is called.
class File {
 public:
  // Creates the file in a folder that exists. Refuses to overwrite a .part file.
  static Result<File> create(const std::filesystem::path& folder, int rank) {
    const auto path = folder / fmt::format("rank-{}.jsonl", rank);
    const int descriptor =
        ::open(part_of(path).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0)
      return Error{ErrorKind::usage, part_of(path).string(),
                   std::string("cannot write the trace: ") + std::strerror(errno),
                   "name a folder of your own with --trace"};
    return File(path, descriptor);
  }

  // Writes whole lines. After a failure the file is closed, and nothing more is written.
  Status write(std::string_view lines) {
    while (!lines.empty() && descriptor_ >= 0) {
      const ssize_t count = ::write(descriptor_, lines.data(), lines.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        const int code = count < 0 ? errno : EIO;
        ::close(descriptor_.release());
        return cannot_write(path_, code);
      }
      lines.remove_prefix(count);
    }
    return {};
  }

  Status finish() {
    if (descriptor_ < 0) return {};
    if (::close(descriptor_.release()) != 0 && errno != EINTR) return cannot_write(path_, errno);
    return rename_durably(part_of(path_), path_);
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  File(std::filesystem::path path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}
  static std::filesystem::path part_of(const std::filesystem::path& path) {
    return path.string() + ".part";
  }
  static Error cannot_write(const std::filesystem::path& path, int code) {
    return {ErrorKind::failed, path.string(),
            std::string("cannot write the trace: ") + std::strerror(code), "is the disk full?"};
  }
  std::filesystem::path path_;  // without .part
  Descriptor descriptor_;
};

}  // namespace omni::trace
