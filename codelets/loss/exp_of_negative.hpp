// The exponential of what is not positive, which is all that a numerically safe loss needs.
#pragma once

#include <bit>
#include <cstdint>

namespace omni {

// exp(x) for x <= 0 to 2 units in the last place. Without a library call, so that loops over it
// vectorise. Below -87 it stays at the smallest normal number; a NaN stays a NaN.
constexpr float exp_of_negative(float x) {
  constexpr float kShift = 0x1.8p23f;  // adding it rounds to an integer, left in the low bits
  const float bounded = x < -87.0f ? -87.0f : x;
  const float shifted = bounded * 1.44269504f + kShift;
  const float whole = shifted - kShift;
  const float rest =
      bounded - whole * 0.693359375f + whole * 2.12194440e-4f;  // |rest| <= ln(2) / 2
  const float p0 = 1.9875691500e-4f * rest + 1.3981999507e-3f;
  const float p1 = (p0 * rest + 8.3334519073e-3f) * rest + 4.1665795894e-2f;
  const float p2 = (p1 * rest + 1.6666665459e-1f) * rest + 5.0000001201e-1f;
  const std::uint32_t exponent =
      (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kShift) + 127u) << 23;
  return (p2 * rest * rest + rest + 1.0f) * std::bit_cast<float>(exponent);
}

}  // namespace omni
