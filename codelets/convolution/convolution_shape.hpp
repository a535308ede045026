// A ConvShape is the geometry of a convolution. Activations have the dimensions n,h,w,c; weights
// have filters,kernel_h,kernel_w,c/groups.
#pragma once

#include <compare>
#include <cstdint>

namespace omni {

// A Pass is one of the three passes of a convolution, in the order that tables use.
enum class Pass { forward, backward_weights, backward_data };

struct ConvShape {
  int n = 1, h = 1, w = 1, c = 1;
  int filters = 1, kernel_h = 1, kernel_w = 1;
  int stride_h = 1, stride_w = 1;
  int pad_h = 0, pad_w = 0;            // on each side
  int dilation_h = 1, dilation_w = 1;  // 1: the kernel has no gaps
  int groups = 1;

  // Returns the number of pixels from the first tap of a filter to the last one.
  constexpr int reach_h() const { return dilation_h * (kernel_h - 1) + 1; }
  constexpr int reach_w() const { return dilation_w * (kernel_w - 1) + 1; }
  constexpr int out_h() const { return (h + 2 * pad_h - reach_h()) / stride_h + 1; }
  constexpr int out_w() const { return (w + 2 * pad_w - reach_w()) / stride_w + 1; }
  constexpr int group_c() const { return c / groups; }
  constexpr int group_filters() const { return filters / groups; }
  // Returns the number of products in one output value.
  constexpr int taps() const { return kernel_h * kernel_w * group_c(); }

  constexpr std::int64_t src_count() const { return std::int64_t{n} * h * w * c; }
  constexpr std::int64_t dst_count() const { return pixels() * filters; }
  constexpr std::int64_t weights_count() const { return std::int64_t{filters} * taps(); }
  // Returns the number of pixels of all output images.
  constexpr std::int64_t pixels() const { return std::int64_t{n} * out_h() * out_w(); }

  auto operator<=>(const ConvShape&) const = default;
};

}  // namespace omni
