// A matrix product on cuBLASLt, which can end in a bias and relu. Its algorithm is chosen when a
// worker meets a shape for the first time (the only time that it waits for the device).
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/cuda/worker.hpp"

namespace omni {

class DeviceContext;

namespace gpu {

// All matrices are row-major.
struct Matmul {
  struct Matrix {
    int stride = 0;  // values between the starts of two stored rows
    bool transposed = false;
    cudaDataType_t type = CUDA_R_32F;

    auto operator<=>(const Matrix&) const = default;
  };

  int m = 0, n = 0, k = 0;  // product (m x n) = a (m x k) * b (k x n)
  Matrix a{}, b{}, product{};
  bool adds = false;  // to what is in product
  bool bias = false;  // n values, added to every row
  bool relu = false;

  auto operator<=>(const Matmul&) const = default;
};

struct MatmulOperands {
  const void *a, *b;
  void* product;
  const void* bias = nullptr;
};

// A bias that a product can end in. Where it does not begin as the vectors do that kernels read of
// it, cuBLASLt's heuristics have been seen to offer those kernels nevertheless, which breaks the
// device.
inline bool can_end_in(const void* bias) {
  return bias != nullptr && reinterpret_cast<std::uintptr_t>(bias) % 16 == 0;
}

// False: cuBLASLt refuses that product, and nothing has been computed.
bool matmul(CudaWorker& worker, const Matmul& matmul, const MatmulOperands& operands);
// Without bias and relu; cuBLAS computes what cuBLASLt refuses.
void multiply(CudaWorker& worker, const Matmul& matmul, const MatmulOperands& operands);

template <class T>
constexpr cudaDataType_t kCudaType = std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_16BF;

}  // namespace gpu
}  // namespace omni
