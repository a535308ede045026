// How a stored picture is turned or mirrored before it is looked at: 1 (as it is stored) to 8, as
// EXIF numbers them. Cameras note it instead of moving the pixels.
#pragma once

#include <string_view>

#include "runtime/data/images/image.hpp"

namespace omni {

// The bytes of EXIF in a file of these kinds; empty if it has none. Damage ends the search.
std::string_view exif_of_jpeg(std::string_view bytes);
std::string_view exif_of_png(std::string_view bytes);

int orientation_of(std::string_view exif);  // 1 where nothing else is noted, or EXIF is damaged

// Whether height and width change places.
constexpr bool swaps_sides(int orientation) { return orientation >= 5; }

Image upright(Image stored, int orientation);

}  // namespace omni
