// What makes the filters of a layer possible: they fit the padded image, and their elements can be
// counted.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "codelets/convolution/convolution_shape.hpp"
#include "layers/options.hpp"

namespace omni {

// Refuses what is not; the shape is a valid one afterwards in any case.
inline void check_filter(OptionReader& options, ConvShape& shape) {
  const int size = shape.kernel_h;
  const std::int64_t reach = std::int64_t{shape.dilation_h} * (size - 1) + 1;
  if (shape.h + 2 * shape.pad_h < reach || shape.w + 2 * shape.pad_w < reach) {
    options.refuse(
        "size",
        fmt::format("a filter of {} does not fit an input of {}x{}", reach, shape.w, shape.h),
        "choose a smaller size, or pad=1");
    shape.kernel_h = shape.kernel_w = 1;
  }
  const std::int64_t taps = std::int64_t{size} * size * shape.group_c();
  if (taps > std::numeric_limits<int>::max()) {
    options.refuse(
        "size", fmt::format("a filter of {0}x{0}x{1} has too many elements", size, shape.group_c()),
        "choose a smaller size or more groups");
    shape.kernel_h = shape.kernel_w = 1;
  }
}

}  // namespace omni
