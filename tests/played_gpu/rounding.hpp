// Tensor cores round numbers before they multiply them. They leave 10 bits of the mantissa of
// single precision (TF32), or 7 (bf16). If cuBLAS makes bf16 of floats, it cuts bits off, as an
// H200 seems to have done (docs/results/gpu.md).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "runtime/bf16/bf16.hpp"

namespace omni::played {

// Numbers of bits of a mantissa. kCutToBf16 stands for those of bf16, with the others cut off.
constexpr int kExact = 23, kTf32 = 10, kBf16 = 7, kCutToBf16 = -7;

// Rounds to `bits` bits of mantissa, ties away from zero.
inline float rounded(float value, int bits) {
  const auto all = std::bit_cast<std::uint32_t>(value);
  const bool finite = (all & 0x7F800000) != 0x7F800000;
  const std::uint32_t lost = (1u << (23 - std::abs(bits))) - 1;
  const std::uint32_t half = bits == kCutToBf16 ? 0 : (lost + 1) / 2;
  return finite ? std::bit_cast<float>((all + half) & ~lost) : value;
}

// Factors holds values, or a copy of them that is rounded to `bits` bits.
class Factors {
 public:
  Factors(const float* values, std::size_t count, int bits) : values_(values) {
    if (bits == kExact) return;
    copy_.assign(values, values + count);
    for (float& value : copy_) value = rounded(value, bits);
    values_ = copy_.data();
  }
  Factors(const void* values, std::size_t count, int bits, bool bf16)
      : Factors(static_cast<const float*>(values), bf16 ? 0 : count, bits) {
    if (!bf16) return;
    const auto* all = static_cast<const Bf16*>(values);
    copy_.assign(all, all + count);
    values_ = copy_.data();
  }
  Factors(const Factors&) = delete;
  Factors& operator=(const Factors&) = delete;
  const float* begin() const { return values_; }

 private:
  std::vector<float> copy_;
  const float* values_;
};

// Sums gives memory for sums of floats. At the end the sums are in floats, or are rounded to bf16.
class Sums {
 public:
  Sums(void* values, std::size_t count, bool bf16)
      : bf16_(bf16 ? static_cast<Bf16*>(values) : nullptr), begin_(static_cast<float*>(values)) {
    if (!bf16) return;
    copy_.assign(bf16_, bf16_ + count);
    begin_ = copy_.data();
  }
  ~Sums() {
    if (bf16_ != nullptr) std::copy(copy_.begin(), copy_.end(), bf16_);
  }
  Sums(const Sums&) = delete;
  Sums& operator=(const Sums&) = delete;
  float* begin() const { return begin_; }

 private:
  std::vector<float> copy_;
  Bf16* bf16_;
  float* begin_;
};

}  // namespace omni::played
