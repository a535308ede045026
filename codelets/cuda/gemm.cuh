// Row-major single-precision matrix products on cuBLAS, in the precision of the worker's handle.
#pragma once

#include <cstdint>

#include "codelets/dense/gemm.hpp"
#include "runtime/cuda/worker.hpp"

namespace omni::gpu {

// So many products of the same size, whose matrices begin so many values behind the last one's.
struct Batch {
  int count = 1;
  std::int64_t a = 0, b = 0, product = 0;
};

// product (m x n) = a (m x k) * b (k x n) + keep * product
inline void gemm(CudaWorker& worker, int m, int n, int k, MatrixView a, MatrixView b, float keep,
                 float* product, int product_stride, const Batch& batch = {}) {
  const float one = 1;
  const auto order = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  // To cuBLAS a row-major matrix is the transposed one: product^T = b^T * a^T.
  if (batch.count == 1)
    check(cublasSgemm(worker.blas(), order(b.transposed), order(a.transposed), n, m, k, &one,
                      b.data, b.stride, a.data, a.stride, &keep, product, product_stride),
          "a matrix product");
  else
    check(cublasSgemmStridedBatched(worker.blas(), order(b.transposed), order(a.transposed), n, m,
                                    k, &one, b.data, b.stride, batch.b, a.data, a.stride, batch.a,
                                    &keep, product, product_stride, batch.product, batch.count),
          "a batch of matrix products");
}

}  // namespace omni::gpu
