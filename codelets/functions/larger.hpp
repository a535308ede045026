// The larger of two tensors of equal size, value by value. As in Caffe, the second counts as the
// larger if they are equal.
#pragma once

#include <cstdint>

#include "runtime/bf16/bf16.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

struct LargerArgs {
  std::int64_t count = 0;
  bool of_first = true;  // the gradient is that of the first tensor
};

// The functors are for the loops of cores and for CUDA kernels.
struct LargerOf {
  OMNI_HD auto operator()(auto a, auto b) const { return a > b ? a : b; }
};
struct LargerGradient {
  bool of_first;
  OMNI_HD auto operator()(auto a, auto b, auto diff) const {
    return (a > b) == of_first ? diff : decltype(diff){0};
  }
};

namespace reference {

template <class T>
void larger_forward(const LargerArgs& args, const T* a, const T* b, T* dst) {
  for (std::int64_t i = 0; i < args.count; ++i) dst[i] = LargerOf()(a[i], b[i]);
}

template <class T>
void larger_backward(const LargerArgs& args, const T* a, const T* b, const T* diff_dst, T* diff) {
  for (std::int64_t i = 0; i < args.count; ++i)
    diff[i] = LargerGradient{args.of_first}(a[i], b[i], diff_dst[i]);
}

}  // namespace reference

OMNI_CODELET(LargerArgs, larger_forward);   // {a R, b R, dst W}
OMNI_CODELET(LargerArgs, larger_backward);  // {a R, b R, diff_dst R, diff W}

}  // namespace omni
