// Sequential reading of a data file, gzip-compressed or not (decided by its contents), in which
// every claim about sizes can be checked before memory is spent on it.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/files.hpp"
#include "runtime/result.hpp"

namespace omni {

class DataFile {
 public:
  // Refuses folders, pipes and devices.
  static Result<DataFile> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  bool compressed() const { return compressed_; }
  std::uint64_t bytes_on_disk() const { return bytes_on_disk_; }

  // Whether so many bytes are implausible for the file's compressed size: deflate shrinks zeros to
  // a thousandth, but images, labels and text hardly ever to less than a tenth.
  bool swells_to(std::uint64_t bytes) const;
  static constexpr std::uint64_t kMaxCompression = 100;

  // Reads as many bytes as there are, up to `out.size()`.
  Result<std::size_t> read_up_to(std::span<std::uint8_t> out);
  // Exactly `out.size()` bytes; a file that ends before is an error.
  Status read(std::span<std::uint8_t> out);
  // The same, into a vector whose memory is touched only as data arrives: a file that promises more
  // than it holds costs no more memory than it holds.
  Result<std::vector<std::uint8_t>> read_vector(std::uint64_t bytes);
  Status expect_end();

  // An ErrorKind::data error about this file.
  Error complain(std::string what, std::string hint = "") const;

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose_r(file); }
  };
  using Handle = std::unique_ptr<gzFile_s, Close>;
  DataFile(std::filesystem::path path, Handle file, std::uint64_t bytes_on_disk);
  Result<std::size_t> read_some(std::span<std::uint8_t> out);

  std::filesystem::path path_;
  Handle file_;
  std::uint64_t bytes_on_disk_;
  bool compressed_;
};

// The lines of a text file, gzip-compressed or not.
Result<LineSource> open_data_lines(const std::filesystem::path& path);

}  // namespace omni
