// L2 normalisation scales the channels of every position to a Euclidean norm of 1: dst = src / r,
// where r = sqrt(sum src^2 + 1e-12). The constant keeps a position of zeros at zero. Backward is
// the exact gradient; Darknet's is not exact.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/tasks/kernel.hpp"

namespace omni {

inline constexpr double kL2NormEpsilon = 1e-12;

struct L2NormArgs {
  std::int64_t rows = 0;  // images * h * w
  int c = 0;
};

namespace reference {

template <class T>
void l2norm_forward(const L2NormArgs& args, const T* src, T* dst) {
  for (std::int64_t i = 0; i < args.rows; ++i, src += args.c, dst += args.c) {
    double squares = kL2NormEpsilon;
    for (int k = 0; k < args.c; ++k)
      squares += static_cast<double>(src[k]) * static_cast<double>(src[k]);
    for (int k = 0; k < args.c; ++k)
      dst[k] = static_cast<T>(static_cast<double>(src[k]) / std::sqrt(squares));
  }
}

// Computes diff_src = (diff_dst - y (y . diff_dst)) / r with y = src / r.
template <class T>
void l2norm_backward(const L2NormArgs& args, const T* src, const T* diff_dst, T* diff_src) {
  for (std::int64_t i = 0; i < args.rows;
       ++i, src += args.c, diff_dst += args.c, diff_src += args.c) {
    double squares = kL2NormEpsilon, product = 0;
    for (int k = 0; k < args.c; ++k) {
      squares += static_cast<double>(src[k]) * static_cast<double>(src[k]);
      product += static_cast<double>(src[k]) * static_cast<double>(diff_dst[k]);
    }
    for (int k = 0; k < args.c; ++k)
      diff_src[k] = static_cast<T>(
          (static_cast<double>(diff_dst[k]) - static_cast<double>(src[k]) * product / squares) /
          std::sqrt(squares));
  }
}

}  // namespace reference

OMNI_CODELET(L2NormArgs, l2norm_forward);   // {src R, dst W}
OMNI_CODELET(L2NormArgs, l2norm_backward);  // {src R, diff_dst R, diff_src W}

}  // namespace omni
