#include "runtime/trace/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/files.hpp"

namespace omni::trace {
namespace {

std::filesystem::path part_of(const std::filesystem::path& path) { return path.string() + ".part"; }

Error cannot_write(const std::filesystem::path& path, int code) {
  return {ErrorKind::failed, path.string(),
          std::string("cannot write the trace: ") + std::strerror(code), "is the disk full?"};
}

}  // namespace

Result<File> File::create(const std::filesystem::path& folder, int rank) {
  const auto path = folder / fmt::format("rank-{}.jsonl", rank);
  const int descriptor =
      ::open(part_of(path).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return Error{ErrorKind::usage, part_of(path).string(),
                 std::string("cannot write the trace: ") + std::strerror(errno),
                 "name a folder of your own with --trace"};
  return File(path, descriptor);
}

File::File(std::filesystem::path path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

Status File::write(std::string_view lines) {
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

Status File::finish() {
  if (descriptor_ < 0) return {};
  if (::close(descriptor_.release()) != 0 && errno != EINTR) return cannot_write(path_, errno);
  return rename_durably(part_of(path_), path_);
}

}  // namespace omni::trace
