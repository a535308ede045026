// Changes of hue, saturation and exposure, by way of the HSV cone as in Darknet.
#pragma once

#include <span>

namespace omni {

struct ColourShift {
  float hue = 0;  // added, as a share of the colour circle
  float saturation = 1, exposure = 1;
  bool operator==(const ColourShift&) const = default;
};

// Values in [0, 1] before and after. Without three channels there is no hue and no saturation: only
// the exposure changes.
void shift_colours(std::span<float> pixels, int channels, const ColourShift& shift);

}  // namespace omni
