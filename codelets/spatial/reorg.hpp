// Reorg moves space to depth and back. A stride x stride block of the wide side becomes one
// position of the deep side:
//   deep[y][x][(dy * stride + dx) * c + k] = wide[y * stride + dy][x * stride + dx][k]
// Each direction is the inverse, and the gradient, of the other.
//
// Darknet's reorg of channels-first images mixes rows and channels in another way, which only its
// own detector needs. This codelet does not copy that.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/extent.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

struct ReorgArgs {
  int n = 0;
  // The wide side has an h and a w that are multiples of stride. The deep side is h/stride x
  // w/stride x c*stride^2.
  Extent wide;
  int stride = 2;
  bool to_depth = true;  // true: from wide to deep; false: back, as Darknet's reverse=1
};

namespace reference {

template <class T>
void reorg(const ReorgArgs& args, const T* src, T* dst) {
  const int stride = args.stride, deep_w = args.wide.w / stride;
  const std::int64_t deep_c = std::int64_t{args.wide.c} * stride * stride;
  std::int64_t in_wide = 0;
  for (std::int64_t image = 0; image < args.n; ++image)
    for (int y = 0; y < args.wide.h; ++y)
      for (int x = 0; x < args.wide.w; ++x)
        for (int k = 0; k < args.wide.c; ++k, ++in_wide) {
          const std::int64_t row = image * (args.wide.h / stride) + y / stride;
          const std::int64_t channel = (y % stride * stride + x % stride) * args.wide.c + k;
          const std::int64_t in_deep = (row * deep_w + x / stride) * deep_c + channel;
          if (args.to_depth)
            dst[in_deep] = src[in_wide];
          else
            dst[in_wide] = src[in_deep];
        }
}

}  // namespace reference

OMNI_CODELET(ReorgArgs, reorg);  // {src R, dst W}

}  // namespace omni
