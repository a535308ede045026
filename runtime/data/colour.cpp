#include "runtime/data/colour.hpp"

#include <algorithm>
#include <cmath>

namespace omni {
namespace {

float lower(float a, float b) { return a < b ? a : b; }
float higher(float a, float b) { return a > b ? a : b; }
float within_unit(float value) { return lower(higher(value, 0), 1); }

// How much of a saturated colour's hue a channel lacks: nothing up to one sixth of the circle from
// the channel's own hue, all from two sixths on.
float lack(float hue, float own) {
  const float away = hue - own;
  return within_unit(std::fabs(away - 6 * std::floor(away / 6 + 0.5f)) - 1);
}

// The hue counts sixths of the circle from red over green to blue; a grey has hue 0. Choices of
// values instead of branches: the compiler then makes vectors of the pixels.
void shift_pixel(float* rgb, const ColourShift& shift) {
  const float r = rgb[0], g = rgb[1], b = rgb[2];
  const float high = higher(higher(r, g), b), range = high - lower(lower(r, g), b);
  const float from_green = 2 * range + (b - r), from_blue = 4 * range + (r - g);
  float turn = high == g ? from_green : from_blue;
  turn = high == r ? g - b : turn;
  constexpr float kNothing = 1e-30f;  // 0 divided by it is 0
  const float hue = turn / higher(range, kNothing) + 6 * shift.hue;
  // A saturation beyond 1 would turn the smallest channel negative and with it change the hue.
  const float saturation = lower(1, shift.saturation * range / higher(high, kNothing));
  const float value = high * shift.exposure;
  rgb[0] = within_unit(value * (1 - saturation * lack(hue, 0)));
  rgb[1] = within_unit(value * (1 - saturation * lack(hue, 2)));
  rgb[2] = within_unit(value * (1 - saturation * lack(hue, 4)));
}

}  // namespace

void shift_colours(std::span<float> pixels, int channels, const ColourShift& shift) {
  if (shift == ColourShift{}) return;
  if (channels != 3) {
    for (float& value : pixels) value = std::min(1.0f, value * shift.exposure);
    return;
  }
  const ColourShift by = shift;
  float* const values = pixels.data();
  const std::size_t count = pixels.size() / 3;
  for (std::size_t i = 0; i < count; ++i) shift_pixel(values + 3 * i, by);
}

}  // namespace omni
