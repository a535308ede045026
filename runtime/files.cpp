// This file writes by POSIX calls, since std::fstream can neither fsync nor say why it failed.
#include "runtime/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>

namespace omni {
namespace {

namespace fs = std::filesystem;

auto retry_interrupted(auto call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

std::string hint_for(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT: return "free some space, or choose another folder";
    case EFBIG: return "raise the limit of file sizes (ulimit -f)";
    case EACCES:
    case EPERM: return "check the permissions of the file and of its folder";
    case EROFS: return "choose a folder that can be written to";
    case ENOENT: return "check the path; folders are not created";
    case ELOOP: return "replace the link by what it leads to";
    default: return "";
  }
}

Error system_error(ErrorKind kind, const fs::path& where, std::string_view doing, int code) {
  return {kind, where.string(), fmt::format("{}: {}", doing, std::generic_category().message(code)),
          hint_for(code)};
}

// Returns `usage` for wrong paths, which the user can correct.
ErrorKind creation_error_kind(int code) {
  switch (code) {
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG: return ErrorKind::usage;
    default: return ErrorKind::failed;
  }
}

// Returns `data` for errors of the file itself.
ErrorKind reading_error_kind(int code) {
  switch (code) {
    case EMFILE:
    case ENFILE: return ErrorKind::failed;
    case ENOMEM: return ErrorKind::out_of_memory;
    default: return ErrorKind::data;
  }
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

Status sync_folder(const fs::path& folder) {
  const Descriptor descriptor(retry_interrupted(
      [&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (descriptor < 0)
    return system_error(ErrorKind::failed, folder, "cannot open the folder to flush it", errno);
  const int status = retry_interrupted([&] { return ::fsync(descriptor); });
  // Some file systems cannot flush a folder, and say so by EINVAL.
  if (status != 0 && errno != EINVAL)
    return system_error(ErrorKind::failed, folder, "cannot flush the folder to disk", errno);
  return {};
}

// Returns the path that a rename may replace. A symbolic link is followed, since the rename would
// replace the link itself. Devices are refused: the rename would even replace /dev/null.
Result<fs::path> final_target(const fs::path& path) {
  if (!path.has_filename())
    return Error{ErrorKind::usage, path.string(), "not a file name", "give the path of a file"};
  std::error_code code;
  fs::path target = path;
  if (fs::is_symlink(path, code)) {
    target = fs::canonical(path, code);
    if (code) return system_error(ErrorKind::usage, path, "cannot follow the link", code.value());
  }
  const fs::file_status status = fs::status(target, code);
  if (status.type() == fs::file_type::none)
    return system_error(creation_error_kind(code.value()), path, "cannot create", code.value());
  if (fs::exists(status) && !fs::is_regular_file(status))
    return Error{ErrorKind::usage, path.string(), "exists and is not a regular file",
                 "choose another path"};
  return target;
}

constexpr std::size_t kFirstBytes = 65536;  // of a LineSource's buffer; doubled for long lines

}  // namespace

std::filesystem::path shipped_folder() {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return program.parent_path().parent_path() / "share/omnivore";
}

Status require_there(const fs::path& path) {
  if (::access(path.c_str(), R_OK) == 0) return {};
  return Error{ErrorKind::usage, path.string(),
               "cannot open: " + std::generic_category().message(errno),
               "check the path and its permissions"};
}

Result<InputFile> InputFile::open(const fs::path& path, Links links) {
  // Without O_NONBLOCK, open() would block for a FIFO.
  const int flags =
      O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (links == Links::refused ? O_NOFOLLOW : 0);
  const int descriptor = retry_interrupted([&] { return ::open(path.c_str(), flags); });
  if (descriptor < 0) return system_error(reading_error_kind(errno), path, "cannot open", errno);
  InputFile file(path, descriptor, 0);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0)
    return system_error(ErrorKind::data, path, "cannot inspect", errno);
  if (!S_ISREG(status.st_mode))
    return Error{ErrorKind::data, path.string(), "not a regular file", "give the path of a file"};
  file.size_ = static_cast<std::uint64_t>(status.st_size);
  return file;
}

InputFile::InputFile(fs::path path, int descriptor, std::uint64_t size)
    : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

Status InputFile::read(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        retry_interrupted([&] { return ::read(descriptor_, bytes.data(), bytes.size()); });
    if (count < 0) return system_error(reading_error_kind(errno), path_, "cannot read", errno);
    if (count == 0)
      return Error{ErrorKind::data, path_.string(),
                   fmt::format("ends {} bytes too early", bytes.size()),
                   "the file is truncated, or it is being written"};
    bytes = bytes.subspan(count);
  }
  return {};
}

Result<std::string> read_file(const fs::path& path, std::uint64_t limit, Links links) {
  OMNI_TRY(auto file, InputFile::open(path, links));
  if (file.size() > limit)
    return Error{ErrorKind::data, path.string(),
                 fmt::format("{} bytes, at most {} are accepted here", file.size(), limit),
                 "is this the right file?"};
  std::string contents(file.size(), '\0');
  OMNI_CHECK(file.read(std::as_writable_bytes(std::span(contents))));
  return contents;
}

Result<AtomicFile> AtomicFile::create(const fs::path& path) {
  static std::atomic<unsigned> counter{0};
  OMNI_TRY(const fs::path target, final_target(path));
  for (;;) {
    // The name does not contain the target's, which may be as long as the file system allows.
    const fs::path temporary =
        folder_of(target) / fmt::format(".omni-{}-{}.tmp", ::getpid(), counter++);
    const int descriptor = retry_interrupted(
        [&] { return ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
    if (descriptor >= 0) return AtomicFile(target, temporary, descriptor);
    // A dead process may have left a file of this name, or one on another machine may be using it.
    if (errno != EEXIST)
      return system_error(creation_error_kind(errno), path, "cannot create", errno);
  }
}

AtomicFile::AtomicFile(fs::path target, fs::path temporary, int descriptor)
    : target_(std::move(target)), temporary_(std::move(temporary)), descriptor_(descriptor) {}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (descriptor_ < 0) return;
  ::close(descriptor_.release());
  ::unlink(temporary_.c_str());
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        retry_interrupted([&] { return ::write(descriptor_, bytes.data(), bytes.size()); });
    // A write of 0 bytes gives no reason; repeated, it might go on for ever.
    if (count <= 0) {
      const int code = count < 0 ? errno : EIO;
      discard();
      return system_error(ErrorKind::failed, target_, "cannot write", code);
    }
    bytes = bytes.subspan(count);
  }
  return {};
}

Status AtomicFile::write(std::string_view text) {
  return write(std::as_bytes(std::span(text.data(), text.size())));
}

Status AtomicFile::commit() {
  if (retry_interrupted([&] { return ::fsync(descriptor_); }) != 0) {
    const int code = errno;
    discard();
    return system_error(ErrorKind::failed, target_, "cannot flush to disk", code);
  }
  // Network file systems may report a full disk only here. The descriptor is closed in any case.
  if (::close(descriptor_.release()) != 0 && errno != EINTR) {
    const int code = errno;
    ::unlink(temporary_.c_str());
    return system_error(ErrorKind::failed, target_, "cannot close", code);
  }
  Status status = rename_durably(temporary_, target_);
  if (!status) ::unlink(temporary_.c_str());
  return status;
}

Status try_writing(const fs::path& path, std::uint64_t bytes) {
  OMNI_TRY(auto file, AtomicFile::create(path));
  const auto length = static_cast<off_t>(std::max<std::uint64_t>(bytes, 1));
  if (retry_interrupted([&] { return ::fallocate(file.descriptor_, 0, 0, length); }) == 0)
    return {};
  const int code = errno;
  // If the file system cannot reserve space, at least a byte shows whether the disk is full
  // already.
  if (code == EOPNOTSUPP || code == ENOSYS) return file.write("x");
  return system_error(ErrorKind::usage, path, fmt::format("has no room for {} bytes", bytes), code);
}

Status try_folder(const fs::path& folder, std::uint64_t bytes, std::string_view option) {
  std::error_code none;
  fs::path there = fs::absolute(folder);
  while (!fs::exists(fs::symlink_status(there, none)) && there.has_relative_path())
    there = there.parent_path();
  Status status = Error{ErrorKind::usage, "", "no folder, nor a link to one", ""};
  if (fs::is_directory(there, none)) status = try_writing(there / ".omni-probe", bytes);
  if (status) return {};
  return Error{status.error().kind, there.string(), status.error().what,
               fmt::format("name a writable folder with free space with {}", option)};
}

Status write_file_atomically(const fs::path& path, std::string_view contents) {
  OMNI_TRY(auto file, AtomicFile::create(path));
  OMNI_CHECK(file.write(contents));
  return file.commit();
}

Status rename_durably(const fs::path& from, const fs::path& to) {
  if (retry_interrupted([&] { return ::rename(from.c_str(), to.c_str()); }) != 0)
    return system_error(ErrorKind::failed, to, "cannot move the finished file into place", errno);
  return sync_folder(folder_of(to));
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code ended;
  for (std::filesystem::directory_iterator each(folder, ended);
       !ended && each != std::filesystem::end(each); each.increment(ended))
    entries.push_back(each->path());
  return entries;
}

int lock_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && status.st_uid == ::geteuid() &&
      ::flock(descriptor, LOCK_EX | LOCK_NB) == 0)
    return descriptor;
  ::close(descriptor);
  return -1;
}

void delete_unlocked_folders(const std::filesystem::path& parent, const std::string& prefix) {
  const auto recent = std::filesystem::file_time_type::clock::now() - std::chrono::minutes(1);
  std::error_code none;
  for (const std::filesystem::path& folder : entries_of(parent)) {
    if (!folder.filename().string().starts_with(prefix) ||
        std::filesystem::last_write_time(folder, none) >= recent)
      continue;
    if (const Descriptor lock(lock_folder(folder)); lock >= 0)
      std::filesystem::remove_all(folder, none);
  }
}

LineSource::LineSource(Read read) : read_(std::move(read)), buffer_(kFirstBytes + kPadding) {}

Result<std::optional<LineSource::Line>> LineSource::next() {
  while (true) {
    const char* start = buffer_.data() + begin_;
    const std::size_t held = end_ - begin_;
    const void* found = held > 0 ? std::memchr(start, '\n', held) : nullptr;
    const std::size_t length =
        found != nullptr ? static_cast<std::size_t>(static_cast<const char*>(found) - start) : held;
    if (length > kLongest)
      return std::optional(Line{.text = {start, kLongest}, .ended = true, .too_long = true});
    if (found != nullptr) {
      begin_ += length + 1;
      return std::optional(Line{.text = {start, length}, .ended = true, .too_long = false});
    }
    if (exhausted_) {
      begin_ = end_;
      if (held == 0) return std::optional<Line>();
      return std::optional(Line{.text = {start, held}, .ended = false, .too_long = false});
    }
    std::memmove(buffer_.data(), start, held);
    begin_ = 0;
    end_ = held;
    if (2 * held > buffer_.size()) buffer_.resize(2 * buffer_.size());
    const std::size_t room = buffer_.size() - kPadding - held;
    OMNI_TRY(const std::size_t got, read_({buffer_.data() + held, room}));
    end_ += got;
    exhausted_ = got < room;
  }
}

Result<LineSource> open_lines(const std::filesystem::path& path) {
  OMNI_TRY(InputFile opened, InputFile::open(path));
  auto file = std::make_shared<InputFile>(std::move(opened));
  return LineSource(
      [file, left = file->size()](std::span<char> bytes) mutable -> Result<std::size_t> {
        const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left, bytes.size()));
        OMNI_CHECK(file->read(std::as_writable_bytes(bytes.first(count))));
        left -= count;
        return count;
      });
}

}  // namespace omni
