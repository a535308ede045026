// The numbers that tensor cores make of single precision before they multiply: 10 bits of mantissa.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace omni::played {

inline float rounded_to_tf32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool finite = (bits & 0x7F800000) != 0x7F800000;
  return finite ? std::bit_cast<float>((bits + 0x1000) & ~std::uint32_t{0x1FFF}) : value;
}

// The values themselves, or a rounded copy of them.
class Factors {
 public:
  Factors(const float* values, std::size_t count, bool tf32) : values_(values) {
    if (!tf32) return;
    copy_.assign(values, values + count);
    for (float& value : copy_) value = rounded_to_tf32(value);
    values_ = copy_.data();
  }
  Factors(const Factors&) = delete;
  Factors& operator=(const Factors&) = delete;
  const float* begin() const { return values_; }

 private:
  const float* values_;
  std::vector<float> copy_;
};

}  // namespace omni::played
