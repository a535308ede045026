#include "runtime/data/lmdb/datum.hpp"

#include <fmt/format.h>

#include <utility>

namespace omni {
namespace {

// A Field is a number of a field of the message.
enum Field { channels = 1, height, width, data, label, float_data, encoded };

Error damaged(const std::string& where, std::string what) {
  return {ErrorKind::data, where, std::move(what), "the entry is damaged, or no Datum"};
}

// Bytes reads a message from its front. If a read asks for more than there is, `sound` becomes
// false.
struct Bytes {
  std::string_view left;
  bool sound = true;

  std::uint64_t number() {  // 7 bits a byte, the lowest first
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::string_view byte = take(1);
      if (!sound) return 0;
      const auto bits = static_cast<std::uint8_t>(byte.front());
      value |= std::uint64_t{bits & 0x7fu} << shift;
      if (bits < 0x80) return value;
    }
    sound = false;
    return 0;
  }
  std::string_view take(std::uint64_t count) {
    sound = sound && count <= left.size();
    if (!sound) return {};
    const std::string_view taken = left.substr(0, count);
    left.remove_prefix(count);
    return taken;
  }
};

void put_number(std::string& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
}
void put_field(std::string& bytes, Field field, std::uint64_t value) {
  put_number(bytes, std::uint64_t{field} << 3);
  put_number(bytes, value);
}
void put_data(std::string& bytes, std::uint64_t size) {  // the data follow
  put_number(bytes, std::uint64_t{data} << 3 | 2);
  put_number(bytes, size);
}

}  // namespace

std::string datum_of(const Image& image, int label_of) {
  std::string bytes;
  const auto count = static_cast<std::size_t>(image.extent.c);
  put_field(bytes, channels, count);
  put_field(bytes, height, static_cast<std::uint64_t>(image.extent.h));
  put_field(bytes, width, static_cast<std::uint64_t>(image.extent.w));
  put_data(bytes, image.pixels.size());
  for (std::size_t c = 0; c < count; ++c)
    for (std::size_t i = count == 3 ? 2 - c : c; i < image.pixels.size(); i += count)
      bytes += static_cast<char>(image.pixels[i]);
  put_field(bytes, label, static_cast<std::uint64_t>(label_of));
  return bytes;
}

std::string datum_of_file(std::string_view file, int label_of) {
  std::string bytes;
  put_data(bytes, file.size());
  bytes += file;
  put_field(bytes, label, static_cast<std::uint64_t>(label_of));
  put_field(bytes, encoded, 1);
  return bytes;
}

Result<Datum> parse_datum(std::string_view bytes, const std::string& where) {
  if (bytes.size() > kMostFileBytes + (kMaxPixels << 2))
    return damaged(where, fmt::format("has {} bytes", bytes.size()));
  Datum datum;
  Bytes message{bytes};
  while (!message.left.empty()) {
    const std::size_t at = bytes.size() - message.left.size();
    const std::uint64_t tag = message.number();
    const std::uint64_t field = tag >> 3;  // how it is stored are the lowest bits
    datum.has_floats |= field == float_data;
    if (const std::uint64_t kind = tag & 7; kind == 0) {
      const auto value = static_cast<std::int64_t>(message.number());
      if (field == channels) datum.channels = value;
      if (field == height) datum.height = value;
      if (field == width) datum.width = value;
      if (field == label) datum.label = value;
      if (field == encoded) datum.encoded = value != 0;
    } else if (kind == 2) {
      const std::string_view content = message.take(message.number());
      if (field == data) datum.data = content;
    } else if (kind == 1 || kind == 5) {
      message.take(kind == 1 ? 8 : 4);
    } else {
      return damaged(where, fmt::format("is no message of protobuf at byte {}", at));
    }
    if (!message.sound || field == 0)
      return damaged(where, message.sound ? fmt::format("is no message of protobuf at byte {}", at)
                                          : "is cut off");
  }
  return datum;
}

Result<Image> image_of(const Datum& datum, const std::string& where, LeastSize least) {
  if (datum.encoded) return parse_image(datum.data, where, least);
  if (datum.has_floats && datum.data.empty())
    return Error{ErrorKind::data, where, "has float_data, which are not supported",
                 "write bytes, or train on vectors as LIBSVM files"};
  constexpr std::int64_t kLongest = 1 << 16, kMostChannels = 1 << 12;
  const bool sound = datum.channels > 0 && datum.channels <= kMostChannels && datum.height > 0 &&
                     datum.height <= kLongest && datum.width > 0 && datum.width <= kLongest &&
                     static_cast<std::uint64_t>(datum.height * datum.width) <= kMaxPixels;
  const auto pixels =
      static_cast<std::size_t>(datum.height) * static_cast<std::size_t>(datum.width);
  if (!sound || static_cast<std::uint64_t>(datum.channels) * pixels != datum.data.size())
    return damaged(where, fmt::format("is {}x{}x{} with {} bytes", datum.width, datum.height,
                                      datum.channels, datum.data.size()));
  Image image{.extent = {static_cast<int>(datum.height), static_cast<int>(datum.width),
                         static_cast<int>(datum.channels)},
              .pixels = {}};
  const auto count = static_cast<std::size_t>(datum.channels);
  image.pixels.resize(datum.data.size());
  for (std::size_t c = 0; c < count; ++c) {
    const char* plane = datum.data.data() + c * pixels;
    const std::size_t to = count == 3 ? 2 - c : c;  // images have red first
    for (std::size_t i = 0; i < pixels; ++i)
      image.pixels[i * count + to] = static_cast<std::uint8_t>(plane[i]);
  }
  return image;
}

}  // namespace omni
