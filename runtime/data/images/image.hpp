// An 8-bit image in memory, and the size that the caller needs.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/extent.hpp"

namespace omni {

struct Image {
  Extent extent;
  std::vector<std::uint8_t> pixels;  // channels last (RGB)
  std::vector<float> values = {};    // of a vector, as the net takes them: then there are no pixels
};

// Bounds, checked before memory is allocated for the sizes in a header.
inline constexpr std::uint64_t kMaxPixels = 1u << 26;

// A codec that can decode at a fraction of the size, which is faster, may do so as long as no side
// falls below this. As it stands: the image's own size.
struct LeastSize {
  int h = std::numeric_limits<int>::max(), w = std::numeric_limits<int>::max();
};

}  // namespace omni
