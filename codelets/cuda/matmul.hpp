// These functions multiply row-major matrices on cuBLASLt, which can add a bias and apply relu, and
// on cuBLAS. cuBLASLt's algorithm is chosen when a worker first meets a shape. Only then a product
// waits for the GPU.
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/cuda/check.hpp"
#include "runtime/cuda/first_launch.hpp"
#include "runtime/cuda/worker.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni::gpu {

// A Matmul is the shape of a product. All matrices are row-major.
struct Matmul {
  struct Matrix {
    int stride = 0;  // values between the starts of two stored rows
    bool transposed = false;
    cudaDataType_t type = CUDA_R_32F;

    auto operator<=>(const Matrix&) const = default;
  };

  int m = 0, n = 0, k = 0;  // product (m x n) = a (m x k) * b (k x n)
  Matrix a{}, b{}, product{};
  bool adds = false;  // true: adds to the old values of `product`
  bool bias = false;  // true: n values are added to every row
  bool relu = false;

  auto operator<=>(const Matmul&) const = default;
};

struct MatmulOperands {
  const void *a, *b;
  void* product;
  const void* bias = nullptr;
};

// Returns whether a product can add this bias: it must be aligned for the vectors that kernels
// read. cuBLASLt's heuristics have been seen to offer such kernels for other biases as well, which
// stops the GPU with an error.
inline bool can_end_in(const void* bias) {
  return bias != nullptr && reinterpret_cast<std::uintptr_t>(bias) % 16 == 0;
}

// Computes the product. Returns false, and computes nothing, if cuBLASLt refuses it.
bool matmul(CudaWorker& worker, const Matmul& matmul, const MatmulOperands& operands);
// Multiplies without bias and relu. If cuBLASLt refuses the product, cuBLAS computes it.
void multiply(CudaWorker& worker, const Matmul& matmul, const MatmulOperands& operands);

// The following functions multiply on cuBLAS.

// A Batch is several products of one size. `a`, `b` and `product` are the distances, in values,
// from a matrix of one product to that of the next.
struct Batch {
  int count = 1;
  std::int64_t a = 0, b = 0, product = 0;
};

// Returns the precision in which cuBLAS multiplies factors of this type. For bf16 cuBLAS would cut
// off bits of floats, so callers round them first: rounded_factors.hpp.
inline cublasComputeType_t compute_type(cudaDataType_t factors,
                                        Precision precision = implementation_policy().precision) {
  return factors == CUDA_R_32F && precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                               : CUBLAS_COMPUTE_32F;
}

template <class T>
constexpr cudaDataType_t kCudaType = std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_16BF;

// Multiplies without bias and relu. cuBLAS takes a row-major matrix as its transpose, so it
// computes product^T = b^T * a^T.
inline void gemm(CudaWorker& worker, const Matmul& matmul, const MatmulOperands& operands,
                 const Batch& batch = {}) {
  const float one = 1, keep = matmul.adds ? 1 : 0;
  const Matmul::Matrix &a = matmul.a, &b = matmul.b, &product = matmul.product;
  const auto order = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  about_to_launch();
  check(cublasGemmStridedBatchedEx(worker.blas(), order(b.transposed), order(a.transposed),
                                   matmul.n, matmul.m, matmul.k, &one, operands.b, b.type, b.stride,
                                   batch.b, operands.a, a.type, a.stride, batch.a, &keep,
                                   operands.product, product.type, product.stride, batch.product,
                                   batch.count, compute_type(a.type), CUBLAS_GEMM_DEFAULT),
        "matrix products");
}

// A Factor is a matrix that is multiplied. T is float or Bf16.
template <class T>
struct Factor {
  const T* data;
  int stride;
  bool transposed = false;
};

// Computes product (m x n) = a (m x k) * b (k x n) + keep * product, where keep is 0 or 1.
template <class T>
void gemm(CudaWorker& worker, int m, int n, int k, Factor<T> a, Factor<T> b, float keep,
          float* product, int stride, const Batch& batch = {}) {
  constexpr cudaDataType_t kType = kCudaType<T>;
  gemm(worker,
       {m,
        n,
        k,
        {a.stride, a.transposed, kType},
        {b.stride, b.transposed, kType},
        {stride},
        keep != 0},
       {a.data, b.data, product}, batch);
}

}  // namespace omni::gpu
