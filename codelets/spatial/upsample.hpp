// Upsampling enlarges by the nearest neighbour: every value of src, times scale, fills a stride x
// stride block of dst. Backward sums each block. Darknet's negative stride (reverse) sums blocks in
// forward.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/extent.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

struct UpsampleArgs {
  int n = 0;
  Extent src;  // dst is src.h * stride x src.w * stride x src.c
  int stride = 2;
  float scale = 1;
};

namespace reference {

// Calls visit(index in src, index in dst) for every value of dst.
void for_each_upsampled(const UpsampleArgs& args, auto visit) {
  std::int64_t in_dst = 0;
  for (std::int64_t image = 0; image < args.n; ++image)
    for (int y = 0; y < args.src.h * args.stride; ++y)
      for (int x = 0; x < args.src.w * args.stride; ++x) {
        const std::int64_t row = image * args.src.h + y / args.stride;
        for (int k = 0; k < args.src.c; ++k)
          visit((row * args.src.w + x / args.stride) * args.src.c + k, in_dst++);
      }
}

template <class T>
void upsample_forward(const UpsampleArgs& args, const T* src, T* dst) {
  for_each_upsampled(args, [&](std::int64_t in_src, std::int64_t in_dst) {
    dst[in_dst] = static_cast<T>(args.scale) * src[in_src];
  });
}

template <class T>
void upsample_backward(const UpsampleArgs& args, const T* diff_dst, T* diff_src) {
  std::fill_n(diff_src, static_cast<std::int64_t>(args.src.count()) * args.n, T{0});
  for_each_upsampled(args, [&](std::int64_t in_src, std::int64_t in_dst) {
    diff_src[in_src] += static_cast<T>(args.scale) * diff_dst[in_dst];
  });
}

}  // namespace reference

OMNI_CODELET(UpsampleArgs, upsample_forward);   // {src R, dst W}
OMNI_CODELET(UpsampleArgs, upsample_backward);  // {diff_dst R, diff_src W}

}  // namespace omni
