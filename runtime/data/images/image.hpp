// An Image is a decoded image with 8 bits per value, or a vector of floats. This header also
// decodes image files; the first bytes of a file tell its kind.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/extent.hpp"
#include "runtime/result.hpp"

namespace omni {

struct Image {
  Extent extent;
  std::vector<std::uint8_t> pixels;  // channels last (RGB)
  std::vector<float> values = {};    // a vector's values; empty: this is an image
};

// These bounds are checked before memory is allocated. kMaxPixels holds for an image,
// kMostFileBytes for a JPEG or PNG file.
inline constexpr std::uint64_t kMaxPixels = 1u << 26, kMostFileBytes = 64 << 20;

// A decoder may decode at a fraction of an image's size, which is faster, but no side may become
// smaller than here. The default asks for the image's own size.
struct LeastSize {
  int h = std::numeric_limits<int>::max(), w = std::numeric_limits<int>::max();
  int needed_h = 0, needed_w = 0;  // an image that is smaller is refused
};

// Returns the largest number by which both sides may be divided: 8, 4, 2 or 1.
int choose_reduction(std::uint64_t height, std::uint64_t width, LeastSize least);

inline constexpr std::string_view kImageFiles = "JPEG, PNG, or binary PPM or PGM";

// These functions return the image upright: EXIF's orientation is applied. `least` refers to the
// upright image.
Result<Image> read_image(const std::filesystem::path& path, LeastSize least);
Result<Image> parse_image(std::string_view bytes, const std::string& where, LeastSize least);

// Fails if the file does not begin like one that can be read. The error names the file's kind.
Status check_kind(const std::filesystem::path& path);

bool is_jpeg(std::string_view bytes);  // by the first bytes
bool is_png(std::string_view bytes);

// Decodes by libjpeg-turbo: baseline and progressive, grey, colour, CMYK and YCCK. A damaged file
// is refused, even if a part of its picture could be shown. EXIF's orientation is not applied. The
// image has one channel if the file has one, else three, and 1, 1/2, 1/4 or 1/8 of the file's size.
// Errors name `where`.
Result<Image> decode_jpeg(std::string_view bytes, const std::string& where, LeastSize least);

// Decodes every kind of PNG by libpng: 1 to 16 bits, palettes, interlaced. Transparent pixels
// become white. Gamma and colour profiles are ignored.
Result<Image> decode_png(std::string_view bytes, const std::string& where, LeastSize least);

}  // namespace omni
