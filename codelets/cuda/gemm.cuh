// Row-major single-precision matrix products on cuBLAS, in the precision of the implementation
// policy.
#pragma once

#include <cstdint>

#include "codelets/dense/gemm.hpp"
#include "runtime/cuda/first_launch.hpp"
#include "runtime/cuda/worker.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni::gpu {

// So many products of the same size, whose matrices begin so many values behind the last one's.
struct Batch {
  int count = 1;
  std::int64_t a = 0, b = 0, product = 0;
};

// How cuBLAS multiplies floats.
inline cublasComputeType_t compute_type(Precision precision) {
  switch (precision) {
    case Precision::fp32: return CUBLAS_COMPUTE_32F;
    case Precision::tf32: return CUBLAS_COMPUTE_32F_FAST_TF32;
    case Precision::bf16: return CUBLAS_COMPUTE_32F_FAST_16BF;
  }
  return CUBLAS_COMPUTE_32F;
}

// product (m x n) = a (m x k) * b (k x n) + keep * product
inline void gemm(CudaWorker& worker, int m, int n, int k, MatrixView a, MatrixView b, float keep,
                 float* product, int product_stride, const Batch& batch = {}) {
  const float one = 1;
  const auto order = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  // To cuBLAS a row-major matrix is the transposed one: product^T = b^T * a^T.
  constexpr auto kType = CUDA_R_32F;
  const cublasComputeType_t compute = compute_type(implementation_policy().precision);
  about_to_launch();
  if (batch.count == 1)
    check(cublasGemmEx(worker.blas(), order(b.transposed), order(a.transposed), n, m, k, &one,
                       b.data, kType, b.stride, a.data, kType, a.stride, &keep, product, kType,
                       product_stride, compute, CUBLAS_GEMM_DEFAULT),
          "a matrix product");
  else
    check(cublasGemmStridedBatchedEx(worker.blas(), order(b.transposed), order(a.transposed), n, m,
                                     k, &one, b.data, kType, b.stride, batch.b, a.data, kType,
                                     a.stride, batch.a, &keep, product, kType, product_stride,
                                     batch.product, batch.count, compute, CUBLAS_GEMM_DEFAULT),
          "a batch of matrix products");
}

}  // namespace omni::gpu
