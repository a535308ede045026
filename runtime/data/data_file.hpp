// A DataFile is a file of data that is read from front to back. Its first bytes tell whether it is
// compressed by gzip. Sizes that its header announces can be checked before memory is allocated.
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

  // Returns whether the file is compressed, and cannot plausibly hold `bytes` bytes. These are more
  // than 16 MiB, and more than kMaxCompression times the compressed size. Deflate shrinks zeros to
  // a thousandth, but images, labels and text hardly ever to less than a tenth.
  bool swells_to(std::uint64_t bytes) const;
  static constexpr std::uint64_t kMaxCompression = 100;

  // Reads out.size() bytes, or as many as there are. Returns how many.
  Result<std::size_t> read_up_to(std::span<std::uint8_t> out);
  // Reads exactly out.size() bytes. It is an error if the file ends before that.
  Status read(std::span<std::uint8_t> out);
  // Reads exactly `bytes` bytes into a vector. Its memory is touched only as data arrive, so a file
  // that announces too much takes only the memory of what it holds.
  Result<std::vector<std::uint8_t>> read_vector(std::uint64_t bytes);
  Status expect_end();

  // Makes an ErrorKind::data error about this file.
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

// Opens the lines of a text file, gzip-compressed or not.
Result<LineSource> open_data_lines(const std::filesystem::path& path);

}  // namespace omni
