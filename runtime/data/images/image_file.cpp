// Image files, and those formats that need no codec.
#include "runtime/data/images/image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <span>

#include "runtime/files.hpp"

namespace omni {
namespace {

// ---- binary PGM and PPM files: the images that need no codec ----

// The next number of the header, past white space and # comments; -1 when there is none.
int next_number(std::string_view bytes, std::size_t& at) {
  while (at < bytes.size())
    if (bytes[at] == '#')
      at = std::min(bytes.find('\n', at), bytes.size());
    else if (std::isspace(static_cast<unsigned char>(bytes[at])) != 0)
      ++at;
    else
      break;
  int value = -1;
  const auto [end, code] = std::from_chars(bytes.data() + at, bytes.data() + bytes.size(), value);
  if (code != std::errc() || value < 0) return -1;
  at = static_cast<std::size_t>(end - bytes.data());
  return value;
}

bool is_netpbm(std::string_view bytes) {  // by how they begin
  return bytes.starts_with("P5") || bytes.starts_with("P6");
}

// Requires is_netpbm(bytes); `where` is named in errors.
Result<Image> parse_netpbm(std::string_view bytes, const std::string& where) {
  const auto refuse = [&](std::string what, std::string hint = "") {
    return Error{ErrorKind::data, where, std::move(what), std::move(hint)};
  };
  const int channels = bytes[1] == '5' ? 1 : 3;
  std::size_t at = 2;
  const int width = next_number(bytes, at);
  const int height = next_number(bytes, at);
  const int maximum = next_number(bytes, at);
  if (width < 1 || height < 1) return refuse("has no valid width and height");
  if (maximum != 255) return refuse("has not 8 bits per value", "maxval must be 255");
  if (static_cast<std::uint64_t>(width) * height > kMaxPixels)
    return refuse("has more than 2^26 pixels", "make it smaller");
  ++at;  // one white space ends the header
  Image image{.extent = {height, width, channels}, .pixels = {}};
  if (at > bytes.size() || bytes.size() - at < image.extent.count())
    return refuse("ends before its last pixel", "it is truncated");
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data()) + at;
  image.pixels.assign(first, first + image.extent.count());
  return image;
}

// ---- any ----

constexpr std::uint64_t kMostPixelBytes = 3 * kMaxPixels + 4096, kMostOtherBytes = 64 << 20;

}  // namespace

Result<Image> read_image(const std::filesystem::path& path, LeastSize least) {
  OMNI_TRY(InputFile file, InputFile::open(path));
  std::string bytes(std::min<std::uint64_t>(file.size(), 2), '\0');
  OMNI_CHECK(file.read(std::as_writable_bytes(std::span(bytes))));
  const std::uint64_t most = is_netpbm(bytes) ? kMostPixelBytes : kMostOtherBytes;
  if (file.size() > most)
    return Error{ErrorKind::data, path.string(),
                 fmt::format("{} bytes, at most {} are accepted here", file.size(), most),
                 "is this an image?"};
  const std::size_t begun = bytes.size();
  bytes.resize(file.size());
  OMNI_CHECK(file.read(std::as_writable_bytes(std::span(bytes).subspan(begun))));
  return parse_image(bytes, path.string(), least);
}

Result<Image> parse_image(std::string_view bytes, const std::string& where, LeastSize least) {
  if (is_jpeg(bytes)) return decode_jpeg(bytes, where, least);
  if (is_netpbm(bytes)) return parse_netpbm(bytes, where);
  return Error{ErrorKind::data, where, fmt::format("is no image file: not {}", kImageFiles),
               "convert it, or leave it out"};
}

}  // namespace omni
