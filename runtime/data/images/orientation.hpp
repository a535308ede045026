// This header turns a stored image upright. Cameras note in EXIF how the image is to be turned or
// mirrored for display, instead of moving the pixels. EXIF's numbers are 1 (as stored) to 8.
#pragma once

#include <string_view>

#include "runtime/data/images/image.hpp"

namespace omni {

// These functions return the bytes of EXIF in a file; empty if it has none. Damage ends the search.
std::string_view exif_of_jpeg(std::string_view bytes);
std::string_view exif_of_png(std::string_view bytes);

int orientation_of(std::string_view exif);  // 1 also if EXIF notes none, or is damaged

// Returns whether the orientation exchanges height and width.
constexpr bool swaps_sides(int orientation) { return orientation >= 5; }

Image upright(Image stored, int orientation);

}  // namespace omni
