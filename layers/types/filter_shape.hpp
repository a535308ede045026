// These functions check the filters of a layer, describe them as text, and declare their weights.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>

#include "codelets/convolution/convolution_shape.hpp"
#include "layers/layer_builder.hpp"

namespace omni {

// Returns "3", or "5x3" if width and height differ. Width comes before height.
inline std::string text_of_sides(std::int64_t w, std::int64_t h) {
  return w == h ? std::to_string(w) : fmt::format("{}x{}", w, h);
}

// Returns a text like "3x3/2" or, with two strides, dilation and groups, "3x3/2x1 d2 g32".
template <class Shape>
std::string window_text(const Shape& shape) {
  std::string text = fmt::format("{}x{}/{}", shape.kernel_w, shape.kernel_h,
                                 text_of_sides(shape.stride_w, shape.stride_h));
  if constexpr (requires { shape.dilation_w; }) {
    if (shape.dilation_w != 1 || shape.dilation_h != 1)
      text += " d" + text_of_sides(shape.dilation_w, shape.dilation_h);
    if (shape.groups != 1) text += fmt::format(" g{}", shape.groups);
  }
  return text;
}

// Sets what the options say of the windows.
inline void set_windows(const FilterOptions& options, ConvShape& shape) {
  shape.kernel_h = options.size.h;
  shape.kernel_w = options.size.w;
  shape.stride_h = options.stride.h;
  shape.stride_w = options.stride.w;
  shape.pad_h = options.padding.h;
  shape.pad_w = options.padding.w;
  shape.dilation_h = options.dilation.h;
  shape.dilation_w = options.dilation.w;
  shape.groups = options.groups;
}

// The following functions refuse what is wrong with the filters. Afterwards the shape is valid even
// if it was refused.

inline void check_groups(LayerBuilder& builder, int channels, int filters, ConvShape& shape) {
  if (channels % shape.groups == 0 && filters % shape.groups == 0) return;
  builder.refuse("groups",
                 fmt::format("{} groups do not divide {} channels and {} filters", shape.groups,
                             channels, filters),
                 "both must be multiples of groups");
  shape.groups = 1;
}

inline void check_taps(LayerBuilder& builder, const char* hint, ConvShape& shape) {
  const std::int64_t taps = std::int64_t{shape.kernel_h} * shape.kernel_w * shape.group_c();
  if (taps <= std::numeric_limits<int>::max()) return;
  builder.refuse("size",
                 fmt::format("a filter of {}x{}x{} has too many elements", shape.kernel_w,
                             shape.kernel_h, shape.group_c()),
                 hint);
  shape.kernel_h = shape.kernel_w = 1;
}

// Refuses filters that do not fit the padded image, too.
inline void check_filter(LayerBuilder& builder, ConvShape& shape) {
  if (shape.h + 2 * shape.pad_h < shape.reach_h() || shape.w + 2 * shape.pad_w < shape.reach_w()) {
    builder.refuse("size",
                   fmt::format("a filter of {} does not fit an input of {}x{}",
                               text_of_sides(shape.reach_w(), shape.reach_h()), shape.w, shape.h),
                   "choose a smaller size or more padding");
    shape.kernel_h = shape.kernel_w = 1;
  }
  check_taps(builder, "choose a smaller size or more groups", shape);
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
