// The orientation of a stored picture tells how the picture is to be turned or mirrored for
// display. Cameras note it in EXIF instead of moving the pixels. EXIF's numbers are 1 (as it is
// stored) to 8.
#pragma once

#include <string_view>

#include "runtime/data/images/image.hpp"

namespace omni {

// Returns the bytes of EXIF in a file; empty if it has none. Damage ends the search.
std::string_view exif_of_jpeg(std::string_view bytes);
std::string_view exif_of_png(std::string_view bytes);

int orientation_of(std::string_view exif);  // 1 also if EXIF notes none, or is damaged

// Returns whether the orientation exchanges height and width.
constexpr bool swaps_sides(int orientation) { return orientation >= 5; }

Image upright(Image stored, int orientation);

}  // namespace omni
