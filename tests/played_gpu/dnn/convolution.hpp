// A played convolution goes from x to y in all passes, with channels last.
#pragma once

#include <array>
#include <cstddef>

namespace omni::played {

struct Convolution {
  int n = 0, groups = 1;
  int c = 0, h = 0, w = 0;          // of x; c of all groups
  int k = 0, out_h = 0, out_w = 0;  // of y; k of all groups
  int filter_h = 0, filter_w = 0;
  std::array<int, 2> pad{}, stride{}, dilation{};
  int mantissa = 0;   // the bits to which factors are rounded
  bool bf16 = false;  // the type of x, y and the filter; else float
  int x_stride = 0, y_stride = 0;  // values from pixel to pixel, at least c and k

  std::size_t x_count() const { return product(n, h, w, c); }
  std::size_t y_count() const { return product(n, out_h, out_w, k); }
  std::size_t filter_count() const { return product(k, filter_h, filter_w, c / groups); }

 private:
  static std::size_t product(int a, int b, int c, int d) {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(b) * static_cast<std::size_t>(c) *
           static_cast<std::size_t>(d);
  }
};

}  // namespace omni::played
