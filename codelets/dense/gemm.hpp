// Row-major single-precision matrix product on OpenBLAS, and what convolution and connected layers
// do to its rows: bias and activation. Every caller runs in a DeviceContext, which has pinned BLAS
// to the thread.
#pragma once

#include <cblas.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "codelets/elementwise/activation_functors.hpp"

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

// values = activation(values + bias), in one pass; bias may be null.
inline void add_bias_and_activate(std::int64_t rows, int columns, const float* bias,
                                  Activation activation, float* values) {
  if (bias == nullptr) {
    activate(activation, values, static_cast<std::size_t>(rows * columns));
    return;
  }
  with_activation(activation, [=](auto f) {
    for (std::int64_t row = 0; row < rows; ++row) {
      float* __restrict line = values + row * columns;
      for (int k = 0; k < columns; ++k) line[k] = f(line[k] + bias[k]);
    }
  });
}

// sums[k] += the sum of column k. By blocks of columns, whose sums stay in registers; adding only
// their totals to `sums` also keeps small addends from being lost against a large sum.
inline void add_column_sums(std::int64_t rows, int columns, const float* values, float* sums) {
  constexpr int kBlock = 64;
  for (int first = 0; first < columns; first += kBlock) {
    std::array<float, kBlock> block{};
    const int width = std::min(kBlock, columns - first);
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* line = values + row * columns + first;
      if (width == kBlock)
        for (int k = 0; k < kBlock; ++k) block[static_cast<std::size_t>(k)] += line[k];
      else
        for (int k = 0; k < width; ++k) block[static_cast<std::size_t>(k)] += line[k];
    }
    for (int k = 0; k < width; ++k) sums[first + k] += block[static_cast<std::size_t>(k)];
  }
}

}  // namespace omni
