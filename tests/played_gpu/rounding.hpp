// What tensor cores make of numbers before they multiply them: of single precision 10 bits of
// mantissa (TF32), or 7 (bf16).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace omni::played {

// To so many bits of mantissa, ties away from zero.
inline float rounded(float value, int bits) {
  const auto all = std::bit_cast<std::uint32_t>(value);
  const bool finite = (all & 0x7F800000) != 0x7F800000;
  const std::uint32_t lost = (1u << (23 - bits)) - 1;
  return finite ? std::bit_cast<float>((all + lost / 2 + 1) & ~lost) : value;
}

constexpr int kExact = 23, kTf32 = 10, kBf16 = 7;

// The values themselves, or a rounded copy of them.
class Factors {
 public:
  Factors(const float* values, std::size_t count, int bits) : values_(values) {
    if (bits == kExact) return;
    copy_.assign(values, values + count);
    for (float& value : copy_) value = rounded(value, bits);
    values_ = copy_.data();
  }
  Factors(const std::uint16_t* bf16, std::size_t count, int) : copy_(count), values_(copy_.data()) {
    for (std::size_t i = 0; i < count; ++i)
      copy_[i] = std::bit_cast<float>(std::uint32_t{bf16[i]} << 16);
  }
  Factors(const Factors&) = delete;
  Factors& operator=(const Factors&) = delete;
  const float* begin() const { return values_; }

 private:
  std::vector<float> copy_;
  const float* values_;
};

}  // namespace omni::played
