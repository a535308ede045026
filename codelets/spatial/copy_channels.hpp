// This codelet copies a range of channels between two tensors of equal n, h and w. Concatenation
// (route) is one such copy per source. Its backward pass is one copy per gradient. A slice is one
// copy, whose backward pass writes zeros to the other channels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/tasks/access.hpp"
#include "runtime/tasks/kernel.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

struct CopyChannelsArgs {
  std::int64_t rows = 0;  // images * h * w
  int c = 0;              // channels to copy
  int src_c = 0, src_offset = 0;
  int dst_c = 0, dst_offset = 0;
  bool pads = false;  // the other channels of dst become 0
};

namespace reference {

template <class T>
void copy_channels(const CopyChannelsArgs& args, const T* src, T* dst) {
  if (args.pads) std::fill_n(dst, args.rows * args.dst_c, T{});
  for (std::int64_t i = 0; i < args.rows; ++i)
    for (int k = 0; k < args.c; ++k)
      dst[i * args.dst_c + args.dst_offset + k] = src[i * args.src_c + args.src_offset + k];
}

}  // namespace reference

OMNI_CODELET(CopyChannelsArgs, copy_channels);  // {src R, dst W or RW}

// Copies all `count` values of a tensor.
void submit_copy(std::int64_t count, const Tensor& src, const Tensor& dst, TaskTag tag = {});

}  // namespace omni
