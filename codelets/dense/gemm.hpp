// Row-major single-precision matrix product on OpenBLAS. Every caller runs in a DeviceContext,
// which has pinned BLAS to the thread.
#pragma once

#include <cblas.h>

namespace omni {

struct MatrixView {
  const float* data;
  int stride;  // values between the starts of two stored rows
  bool transposed = false;
};

// product (m x n) = a (m x k) * b (k x n) + keep * product
using Gemm = void (*)(int m, int n, int k, MatrixView a, MatrixView b, float keep, float* product,
                      int product_stride);

inline void gemm(int m, int n, int k, MatrixView a, MatrixView b, float keep, float* product,
                 int product_stride) {
  const auto order = [](bool transposed) { return transposed ? CblasTrans : CblasNoTrans; };
  cblas_sgemm(CblasRowMajor, order(a.transposed), order(b.transposed), m, n, k, 1.0f, a.data,
              a.stride, b.data, b.stride, keep, product, product_stride);
}

}  // namespace omni
