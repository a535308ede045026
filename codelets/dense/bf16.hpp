// bfloat16: the upper half of a float's bits, so 7 of the 23 of its mantissa.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "codelets/elementwise/activation_functors.hpp"  // OMNI_HD
#include "runtime/tasks/codelet.hpp"

namespace omni {

// To the nearest, ties to even; what is NaN stays NaN.
OMNI_HD inline std::uint16_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7FFFu + (bits >> 16 & 1u);
  const std::uint32_t quiet = bits | 0x00400000u;
  return static_cast<std::uint16_t>((value == value ? rounded : quiet) >> 16);
}

OMNI_HD inline float float_of_bf16_bits(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

OMNI_HD inline float round_to_bf16(float value) { return float_of_bf16_bits(bf16_bits(value)); }

inline void round_to_bf16(std::span<float> values) {
  for (float& value : values) value = round_to_bf16(value);
}

// Whether numbers are to be rounded to bf16 before they are multiplied.
inline bool in_bf16() { return implementation_policy().precision == Precision::bf16; }

// Why --precision bf16 makes nothing faster on the cores of this machine; null where it does.
const char* bf16_in_vain();

}  // namespace omni
