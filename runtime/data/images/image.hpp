// An 8-bit image in memory, the size that the caller needs, and files of images of any kind that is
// understood, told by their first bytes.
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
  std::vector<float> values = {};    // of a vector, as the net takes them: then there are no pixels
};

// Bounds, checked before memory is allocated for the sizes in a header. The second is of files that
// need a codec.
inline constexpr std::uint64_t kMaxPixels = 1u << 26, kMostFileBytes = 64 << 20;

// A codec that can decode at a fraction of the size, which is faster, may do so as long as no side
// falls below this. As it stands: the image's own size.
struct LeastSize {
  int h = std::numeric_limits<int>::max(), w = std::numeric_limits<int>::max();
};

// By what a side may be divided: 8, 4, 2 or 1.
int choose_reduction(std::uint64_t height, std::uint64_t width, LeastSize least);

inline constexpr std::string_view kImageFiles = "JPEG, PNG, or binary PPM or PGM";

// Upright, as EXIF notes it: `least` is of the image as it is looked at.
Result<Image> read_image(const std::filesystem::path& path, LeastSize least);
Result<Image> parse_image(std::string_view bytes, const std::string& where, LeastSize least);

// Whether the file begins as one that is read; the error names the kind that it is.
Status check_kind(const std::filesystem::path& path);

bool is_jpeg(std::string_view bytes);  // by how they begin
bool is_png(std::string_view bytes);

// Through libjpeg-turbo: baseline and progressive, grey, colour, CMYK and YCCK. A damaged file is
// refused, even if a part of its picture could be shown. The image is as it is stored, whatever
// EXIF notes. One channel if the file has one, else three; at 1, 1/2, 1/4 or 1/8 of the file's
// size. `where` is named in errors.
Result<Image> decode_jpeg(std::string_view bytes, const std::string& where, LeastSize least);

// The same through libpng, of every kind: 1 to 16 bits, palettes, interlaced. What is transparent
// shows white. Gamma and colour profiles are not looked at.
Result<Image> decode_png(std::string_view bytes, const std::string& where, LeastSize least);

}  // namespace omni
