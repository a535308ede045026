// The lines of a text of any length, out of a buffer of fixed length.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

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
