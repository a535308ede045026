// A PReLU is x for x > 0, else slope * x. The slopes are learned, one per channel, or the slope is
// a constant. A slope that all channels share is one of the only channel of a matrix of one column.
#pragma once

#include <cstdint>

#include "runtime/tasks/kernel.hpp"

namespace omni {

struct PReluArgs {
  std::int64_t rows = 0;  // images * h * w
  int c = 1;
  bool learned = true;  // false: there are no slopes, but the constant `slope`
  float slope = 0;
};

namespace reference {

template <class T>
T slope_of(const PReluArgs& args, const T* slopes, std::int64_t i) {
  return args.learned ? slopes[i % args.c] : static_cast<T>(args.slope);
}

template <class T>
void prelu_forward(const PReluArgs& args, const T* src, T* dst, const T* slopes) {
  for (std::int64_t i = 0; i < args.rows * args.c; ++i)
    dst[i] = src[i] > 0 ? src[i] : src[i] * slope_of(args, slopes, i);
}

template <class T>
void prelu_backward(const PReluArgs& args, const T* src, const T* diff_dst, T* diff_src,
                    const T* slopes) {
  for (std::int64_t i = 0; i < args.rows * args.c; ++i)
    diff_src[i] = src[i] > 0 ? diff_dst[i] : diff_dst[i] * slope_of(args, slopes, i);
}

template <class T>
void prelu_backward_slopes(const PReluArgs& args, const T* src, const T* diff_dst, T* diff_slopes) {
  for (std::int64_t i = 0; i < args.rows * args.c; ++i)
    if (!(src[i] > 0)) diff_slopes[i % args.c] += src[i] * diff_dst[i];
}

}  // namespace reference

OMNI_CODELET(PReluArgs, prelu_forward);          // {src R, dst W, [slopes R]}
OMNI_CODELET(PReluArgs, prelu_backward);         // {src R, diff_dst R, diff_src W, [slopes R]}
OMNI_CODELET(PReluArgs, prelu_backward_slopes);  // {src R, diff_dst R, diff_slopes +=}

}  // namespace omni
