// An image file of any kind that is understood, told by its first bytes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/data/images/image.hpp"
#include "runtime/result.hpp"

namespace omni {

inline constexpr std::string_view kImageFiles = "JPEG, or binary PPM or PGM";

Result<Image> read_image(const std::filesystem::path& path, LeastSize least);
Result<Image> parse_image(std::string_view bytes, const std::string& where, LeastSize least);

bool is_jpeg(std::string_view bytes);  // by how they begin

// Through libjpeg-turbo: baseline and progressive, grey, colour, CMYK and YCCK. A damaged file is
// refused, even if a part of its picture could be shown. EXIF is not looked at: an image is read as
// it is stored. One channel if the file has one, else three; at 1, 1/2, 1/4 or 1/8 of the file's
// size. `where` is named in errors.
Result<Image> decode_jpeg(std::string_view bytes, const std::string& where, LeastSize least);

}  // namespace omni
