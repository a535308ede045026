// These functions check that the filters of a layer fit the padded image, describe them as text,
// and declare their weights.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>

#include "codelets/convolution/convolution_shape.hpp"
#include "layers/layer_builder.hpp"

namespace omni {

// Returns a text like "3x3/2" or, with two strides, dilation and groups, "3x3/2x1 d2 g32". Width
// comes before height.
template <class Shape>
std::string window_text(const Shape& shape) {
  const auto both = [](int w, int h) {
    return w == h ? std::to_string(w) : fmt::format("{}x{}", w, h);
  };
  std::string text =
      fmt::format("{}x{}/{}", shape.kernel_w, shape.kernel_h, both(shape.stride_w, shape.stride_h));
  if constexpr (requires { shape.dilation_w; }) {
    if (shape.dilation_w != 1 || shape.dilation_h != 1)
      text += " d" + both(shape.dilation_w, shape.dilation_h);
    if (shape.groups != 1) text += fmt::format(" g{}", shape.groups);
  }
  return text;
}

// Refuses filters that do not fit the image or have too many elements. Afterwards the shape is
// valid even if it was refused.
inline void check_filter(LayerBuilder& builder, ConvShape& shape) {
  const int size = shape.kernel_h;
  const std::int64_t reach = std::int64_t{shape.dilation_h} * (size - 1) + 1;
  if (shape.h + 2 * shape.pad_h < reach || shape.w + 2 * shape.pad_w < reach) {
    builder.refuse(
        "size",
        fmt::format("a filter of {} does not fit an input of {}x{}", reach, shape.w, shape.h),
        "choose a smaller size or more padding");
    shape.kernel_h = shape.kernel_w = 1;
  }
  const std::int64_t taps = std::int64_t{size} * size * shape.group_c();
  if (taps > std::numeric_limits<int>::max()) {
    builder.refuse(
        "size", fmt::format("a filter of {0}x{0}x{1} has too many elements", size, shape.group_c()),
        "choose a smaller size or more groups");
    shape.kernel_h = shape.kernel_w = 1;
  }
}

// Describes the weights of the filters.
inline Param filter_weights(const ConvShape& shape, Filler filler) {
  return {.role = ParamRole::weights,
          .name = "weights",
          .shape = {shape.filters, shape.kernel_h, shape.kernel_w, shape.group_c()},
          .filler = filler,
          .decay = 1};
}

}  // namespace omni
