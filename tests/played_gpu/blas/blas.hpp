// The played cuBLAS and cuBLASLt share handles and rounding.
#pragma once

#include <cublas_api.h>

#include <memory>
#include <optional>

namespace omni::played {

struct Blas {
  cudaStream_t stream = nullptr;
};

// Returns null if there is no such handle.
std::shared_ptr<Blas> find_blas(cublasHandle_t handle);

// Returns how many bits of a float's mantissa a compute type keeps, or nothing if this type is not
// played.
std::optional<int> mantissa(cublasComputeType_t compute);

cublasStatus_t status_of(cudaError_t error);

}  // namespace omni::played
