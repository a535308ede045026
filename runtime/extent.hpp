// The size of one image or activation, channels last, and arithmetic on sizes that never wraps.
#pragma once

#include <cstddef>
#include <cstdint>

namespace omni {

struct Extent {
  int h = 0, w = 0, c = 0;
  std::size_t count() const { return static_cast<std::size_t>(h) * w * c; }
  // Sides and values that an int counts with room for strides and padding. A layer's output is
  // (LayerBuilder::blob sees to it), so that layers and codelets may calculate in int.
  bool countable() const {
    constexpr int kMaxSide = 1 << 24;
    constexpr std::uint64_t kMaxValues = 0x7FFFFFFF;
    if (h > kMaxSide || w > kMaxSide) return false;
    const std::uint64_t pixels = static_cast<std::uint64_t>(h) * w;
    return pixels <= kMaxValues && pixels * c <= kMaxValues;
  }
  bool operator==(const Extent&) const = default;
};

// False (and *product untouched) when a*b does not fit; for sizes that come from files.
inline bool checked_multiply(std::uint64_t a, std::uint64_t b, std::uint64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

}  // namespace omni
