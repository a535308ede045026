// An Extent is the size of an image or an activation: height, width and channels.
#pragma once

#include <cstddef>
#include <cstdint>

namespace omni {

struct Extent {
  int h = 0, w = 0, c = 0;
  std::size_t count() const { return static_cast<std::size_t>(h) * w * c; }
  // Returns whether int suffices to count the values, and to calculate with sides and padding.
  // LayerBuilder::blob() refuses other outputs of layers, so layers and codelets calculate in int.
  bool countable() const {
    constexpr int kMaxSide = 1 << 24;
    constexpr std::uint64_t kMaxValues = 0x7FFFFFFF;
    if (h > kMaxSide || w > kMaxSide) return false;
    const std::uint64_t pixels = static_cast<std::uint64_t>(h) * w;
    return pixels <= kMaxValues && pixels * c <= kMaxValues;
  }
  bool operator==(const Extent&) const = default;
};

// Returns false if the product does not fit, as may happen with sizes that come from files.
inline bool checked_multiply(std::uint64_t a, std::uint64_t b, std::uint64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

}  // namespace omni
