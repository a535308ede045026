// Files: read with bounds, whole or line by line; written so that they survive a crash, whole or
// absent, never half written.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

// A file descriptor, closed when its owner goes.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}  // negative: of nothing
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  operator int() const { return number_; }
  int release() { return std::exchange(number_, -1); }  // to be closed by the caller

 private:
  int number_;
};

// Whether the last part of a path may be a symbolic link: not where others may put one.
enum class Links { followed, refused };

// The whole file; refuses more than `limit` bytes, directories and special files. Problems of
// reading are ErrorKind::data.
Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t limit,
                              Links links = Links::followed);

// What the command line names must be there (ErrorKind::usage): wrong contents are another error.
Status require_there(const std::filesystem::path& path);

// A regular file read from front to back.
class InputFile {
 public:
  static Result<InputFile> open(const std::filesystem::path& path, Links links = Links::followed);
  std::uint64_t size() const { return size_; }     // when it was opened
  int release() { return descriptor_.release(); }  // to be closed by the caller
  Status read(std::span<std::byte> bytes);         // all of them, or an error

 private:
  InputFile(std::filesystem::path path, int descriptor, std::uint64_t size);
  std::filesystem::path path_;
  Descriptor descriptor_;
  std::uint64_t size_ = 0;
};

// A file written beside its final place, then fsync'ed and renamed onto it by commit(). Without
// commit() the destructor removes it. Short writes and EINTR are retried, other failures
// reported; after a failure nothing more is written. A path that cannot be created is
// ErrorKind::usage, a failing disk ErrorKind::failed. A symbolic link is followed; devices and
// folders are refused.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::filesystem::path& path);
  AtomicFile(AtomicFile&&) = default;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text);
  Status commit();  // fsync, rename, fsync of the folder

 private:
  AtomicFile(std::filesystem::path target, std::filesystem::path temporary, int descriptor);
  friend Status try_writing(const std::filesystem::path& path, std::uint64_t bytes);
  void discard();
  std::filesystem::path target_, temporary_;
  Descriptor descriptor_;
};

// Whether a file of so many bytes could be written there now. Changes nothing.
Status try_writing(const std::filesystem::path& path, std::uint64_t bytes);

// The same in the folder that an option names, or in the first one above it that is there. Makes
// none: it would be in the way of runs that start at the same time.
Status try_folder(const std::filesystem::path& folder, std::uint64_t bytes,
                  std::string_view option);

Status write_file_atomically(const std::filesystem::path& path, std::string_view contents);

// Renames a file or a folder and makes the new name survive a power cut.
Status rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// ---- folders of temporary files: a process holds a lock on its own, so that others can tell which
// ones were left by processes that were killed ----
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

// The lock on a folder of this user; -1 while another process has it.
int lock_folder(const std::filesystem::path& folder);

// Deletes the folders in `parent` whose names begin so and that nobody has locked, but none that
// was changed in the last minute: its owner may not have its lock yet.
void delete_unlocked_folders(const std::filesystem::path& parent, const std::string& prefix);

// The lines of a text of any length, out of a buffer of fixed length.
class LineSource {
 public:
  // Fills the bytes from the front and returns their number; fewer than asked for only at the end.
  using Read = std::function<Result<std::size_t>(std::span<char>)>;
  explicit LineSource(Read read);

  struct Line {
    std::string_view text;  // without the line end; valid until the next call
    bool ended = true;      // false: the text stops here, without a line end
    bool too_long = false;  // only the beginning is in `text`
  };
  Result<std::optional<Line>> next();  // nothing: the end

  static constexpr std::size_t kLongest = std::size_t{1} << 20;
  // Readable bytes after every line, for parsers that look ahead.
  static constexpr std::size_t kPadding = 64;

 private:
  Read read_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  bool exhausted_ = false;
};

// The lines of a regular file.
Result<LineSource> open_lines(const std::filesystem::path& path);

}  // namespace omni
