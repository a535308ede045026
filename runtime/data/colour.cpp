#include "runtime/data/colour.hpp"

#include <algorithm>
#include <cmath>

namespace omni {
namespace {

// The hue counts sixths of the circle from red over green to blue; a grey has hue 0.
void shift_pixel(float* rgb, const ColourShift& shift) {
  const float r = rgb[0], g = rgb[1], b = rgb[2];
  const float high = std::max({r, g, b}), low = std::min({r, g, b});
  const float range = high - low;
  float hue = 0;
  if (range > 0) {
    if (high == r)
      hue = (g - b) / range;
    else if (high == g)
      hue = 2 + (b - r) / range;
    else
      hue = 4 + (r - g) / range;
  }
  hue += 6 * shift.hue;
  // A saturation beyond 1 would turn the smallest channel negative and with it change the hue.
  const float saturation = high > 0 ? std::min(1.0f, shift.saturation * range / high) : 0;
  const float value = high * shift.exposure;
  for (int c = 0; c < 3; ++c) {
    // How far the hue is from this channel's own: up to one sixth full strength, from two sixths
    // none.
    const float away = hue - 2 * static_cast<float>(c);
    const float distance = std::fabs(away - 6 * std::round(away / 6));
    const float lack = std::clamp(distance - 1, 0.0f, 1.0f);
    rgb[c] = std::clamp(value * (1 - saturation * lack), 0.0f, 1.0f);
  }
}

}  // namespace

void shift_colours(std::span<float> pixels, int channels, const ColourShift& shift) {
  if (shift == ColourShift{}) return;
  if (channels != 3) {
    for (float& value : pixels) value = std::min(1.0f, value * shift.exposure);
    return;
  }
  for (std::size_t i = 0; i + 3 <= pixels.size(); i += 3) shift_pixel(&pixels[i], shift);
}

}  // namespace omni
