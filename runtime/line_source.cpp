#include "runtime/line_source.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "runtime/files.hpp"

namespace omni {
namespace {
constexpr std::size_t kFirstBytes = 65536;  // doubled when a line does not fit
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
