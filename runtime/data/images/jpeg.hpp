// JPEG images, through libjpeg-turbo: baseline and progressive, grey, colour, CMYK and YCCK. A
// damaged file is refused, even if a part of its picture could be shown. EXIF is not looked at: an
// image is read as it is stored.
#pragma once

#include <string>
#include <string_view>

#include "runtime/data/images/image.hpp"
#include "runtime/result.hpp"

namespace omni {

bool is_jpeg(std::string_view bytes);  // by how they begin

// One channel if the file has one, else three; at 1, 1/2, 1/4 or 1/8 of the file's size. `where` is
// named in errors.
Result<Image> decode_jpeg(std::string_view bytes, const std::string& where, LeastSize least);

}  // namespace omni
