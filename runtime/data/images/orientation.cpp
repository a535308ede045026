#include "runtime/data/images/orientation.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace omni {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kExif = "Exif\0\0"sv;

// Returns the number in the `count` bytes from `at` on; 0 if some of them are beyond the end.
std::uint32_t number_at(std::string_view bytes, std::uint64_t at, unsigned count, bool big_endian) {
  if (at > bytes.size() || bytes.size() - at < count) return 0;
  std::uint32_t number = 0;
  for (unsigned i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[at + i]);
    number |= std::uint32_t{byte} << 8 * (big_endian ? count - 1 - i : i);
  }
  return number;
}

}  // namespace

// Bytes between two segments are skipped, as libjpeg skips them.
std::string_view exif_of_jpeg(std::string_view bytes) {
  constexpr std::uint32_t kStandAlone = 0x01, kFirstReset = 0xD0, kBegin = 0xD8, kEnd = 0xD9,
                          kScan = 0xDA, kApp1 = 0xE1;
  for (std::size_t at = bytes.find('\xFF', 2); at < bytes.size(); at = bytes.find('\xFF', at)) {
    at = bytes.find_first_not_of('\xFF', at);
    if (at >= bytes.size()) break;
    const std::uint32_t marker = number_at(bytes, at++, 1, true);
    if (marker == kEnd || marker == kScan) break;
    if (marker <= kStandAlone || (marker >= kFirstReset && marker <= kBegin)) continue;
    const std::uint32_t length = number_at(bytes, at, 2, true);
    if (length < 2 || length > bytes.size() - at) break;
    const std::string_view segment = bytes.substr(at + 2, length - 2);
    if (marker == kApp1 && segment.starts_with(kExif)) return segment;
    at += length;
  }
  return {};
}

std::string_view exif_of_png(std::string_view bytes) {
  constexpr std::size_t kSignature = 8, kHead = 8, kCrc = 4;
  for (std::uint64_t at = kSignature; at + kHead + kCrc <= bytes.size();) {
    const std::uint64_t length = number_at(bytes, at, 4, true);
    const std::string_view name = bytes.substr(at + 4, 4);
    at += kHead;
    if (length > bytes.size() - at || name == "IEND") break;
    if (name == "eXIf") return bytes.substr(at, length);
    at += length + kCrc;
  }
  return {};
}

int orientation_of(std::string_view exif) {
  constexpr std::uint32_t kOrientation = 0x0112, kShort = 3;
  constexpr std::uint64_t kEntry = 12;
  if (exif.starts_with(kExif)) exif.remove_prefix(kExif.size());
  const bool big_endian = exif.starts_with("MM\0*"sv);
  if (!big_endian && !exif.starts_with("II*\0"sv)) return 1;
  const auto number = [&](std::uint64_t at, unsigned count) {
    return number_at(exif, at, count, big_endian);
  };
  const std::uint64_t first = number(4, 4);
  const std::uint32_t entries = number(first, 2);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::uint64_t entry = first + 2 + i * kEntry;
    if (entry + kEntry > exif.size()) break;
    if (number(entry, 2) != kOrientation) continue;
    const std::uint32_t value = number(entry + 8, 2);
    const bool sound = number(entry + 2, 2) == kShort && number(entry + 4, 4) == 1;
    return sound && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Image upright(Image stored, int orientation) {
  if (orientation == 1) return stored;
  const bool swapped = swaps_sides(orientation);
  const bool from_below =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const Extent from = stored.extent;
  Image shown{.extent = swapped ? Extent{from.w, from.h, from.c} : from, .pixels = {}};
  shown.pixels.resize(shown.extent.count());
  const std::ptrdiff_t pixel = from.c, row = pixel * from.w;
  const std::ptrdiff_t down = from_below ? -row : row, right = from_right ? -pixel : pixel;
  const std::uint8_t* const corner = stored.pixels.data() + (from_below ? row * (from.h - 1) : 0) +
                                     (from_right ? pixel * (from.w - 1) : 0);
  std::uint8_t* dst = shown.pixels.data();
  for (int y = 0; y < shown.extent.h; ++y) {
    const std::uint8_t* src = corner + y * (swapped ? right : down);
    for (int x = 0; x < shown.extent.w; ++x, src += swapped ? down : right)
      dst = std::copy_n(src, pixel, dst);
  }
  return shown;
}

}  // namespace omni
