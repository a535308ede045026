// This header reads and writes files. A reader takes a bounded amount of memory. A file that is
// written appears whole or not at all, also after a crash.
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

// A Descriptor owns a file descriptor; its destructor closes it.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}  // negative: no file
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  operator int() const { return number_; }
  int release() { return std::exchange(number_, -1); }  // the caller closes it

 private:
  int number_;
};

// `refused` forbids that the last part of a path is a symbolic link. Links are refused in places
// where other users can write.
enum class Links { followed, refused };

// Returns the contents of a file. Refuses more than `limit` bytes, directories and special files.
// Errors are ErrorKind::data, unless memory or descriptors are lacking.
Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t limit,
                              Links links = Links::followed);

// Returns the folder of the files that come with this program, installed or in the build tree.
std::filesystem::path shipped_folder();

// Returns ErrorKind::usage if a path that the command line names cannot be read.
Status require_there(const std::filesystem::path& path);

// An InputFile is a regular file that is read from front to back.
class InputFile {
 public:
  static Result<InputFile> open(const std::filesystem::path& path, Links links = Links::followed);
  std::uint64_t size() const { return size_; }     // bytes, when the file was opened
  int release() { return descriptor_.release(); }  // the caller closes it
  Status read(std::span<std::byte> bytes);         // fills the span, or fails

 private:
  InputFile(std::filesystem::path path, int descriptor, std::uint64_t size);
  std::filesystem::path path_;
  Descriptor descriptor_;
  std::uint64_t size_ = 0;
};

// An AtomicFile is written under a temporary name in the folder of its final path; commit() renames
// it. A failure, or a destructor without commit(), removes it. A path that cannot be created is
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

// Fails if a file of `bytes` bytes could not be written at `path` now. Changes nothing.
Status try_writing(const std::filesystem::path& path, std::uint64_t bytes);

// Fails if a file of `bytes` bytes could not be written in the folder that an option names. If
// there is no such folder, the nearest existing folder above it counts. Makes no folder: runs that
// start at the same time would collide.
Status try_folder(const std::filesystem::path& folder, std::uint64_t bytes,
                  std::string_view option);

Status write_file_atomically(const std::filesystem::path& path, std::string_view contents);

// Renames a file or a folder; the new name survives a power cut.
Status rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// The following functions manage folders of temporary files. A process keeps its folder locked, so
// a folder without a lock is one that a killed process has left.

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

// Locks a folder of this user. Returns the lock's descriptor; -1: another process has the lock, or
// the folder is not this user's.
int lock_folder(const std::filesystem::path& folder);

// Deletes the folders in `parent` whose names begin with `prefix` and that no process has locked.
// Keeps those changed in the last minute, whose owners may not have their locks yet.
void delete_unlocked_folders(const std::filesystem::path& parent, const std::string& prefix);

// A LineSource returns the lines of a text of any length; its buffer takes at most 2 MiB.
class LineSource {
 public:
  // A Read fills the span from the front, and returns with how many characters. If they are fewer
  // than the span holds, the text ends there.
  using Read = std::function<Result<std::size_t>(std::span<char>)>;
  explicit LineSource(Read read);

  struct Line {
    std::string_view text;  // without the line end; valid until the next call
    bool ended = true;      // false: the last line, which has no line end
    bool too_long = false;  // true: `text` has only the beginning, and next() stays at this line
  };
  Result<std::optional<Line>> next();  // nullopt: the end

  static constexpr std::size_t kLongest = std::size_t{1} << 20;  // bytes of a line
  // Parsers that look ahead may read this many bytes after every line.
  static constexpr std::size_t kPadding = 64;

 private:
  Read read_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  bool exhausted_ = false;
};

Result<LineSource> open_lines(const std::filesystem::path& path);

}  // namespace omni
