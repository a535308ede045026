// These functions multiply row-major matrices of floats on cores, and round factors to bf16. Every
// caller runs in a DeviceContext, in which BLAS uses only the calling thread.
#pragma once

#include <cblas.h>

#include <span>

#include "runtime/bf16/bf16.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni {

struct MatrixView {
  const float* data;
  int stride;  // values between the starts of two stored rows
  bool transposed = false;
};

// A Gemm computes product (m x n) = a (m x k) * b (k x n) + keep * product.
using Gemm = void (*)(int m, int n, int k, MatrixView a, MatrixView b, float keep, float* product,
                      int product_stride);

inline void gemm(int m, int n, int k, MatrixView a, MatrixView b, float keep, float* product,
                 int product_stride) {
  const auto order = [](bool transposed) { return transposed ? CblasTrans : CblasNoTrans; };
  cblas_sgemm(CblasRowMajor, order(a.transposed), order(b.transposed), m, n, k, 1.0f, a.data,
              a.stride, b.data, b.stride, keep, product, product_stride);
}

// The following functions round factors, as --precision bf16 asks for.

inline float round_to_bf16(float value) { return Bf16(value); }

inline void round_to_bf16(std::span<float> values) {
  for (float& value : values) value = round_to_bf16(value);
}

// Returns whether factors are to be rounded to bf16.
inline bool in_bf16() { return implementation_policy().precision == Precision::bf16; }

// Returns why --precision bf16 makes nothing faster on this machine's cores; null if it is faster.
#ifdef OMNI_ONEDNN
const char* bf16_in_vain();
#else
inline const char* bf16_in_vain() {
  return "without oneDNN the cores multiply in fp32: expect fp32 to be faster";
}
#endif

}  // namespace omni
