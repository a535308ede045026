// What cuBLAS and cuBLASLt have in common: handles, and how they round.
#pragma once

#include <cublas_api.h>

#include <memory>
#include <optional>

namespace omni::played {

struct Blas {
  cudaStream_t stream = nullptr;
};

// Null: no such handle.
std::shared_ptr<Blas> find_blas(cublasHandle_t handle);

// What is played of a way to compute: the bits that it leaves of a float's mantissa.
std::optional<int> mantissa(cublasComputeType_t compute);

cublasStatus_t status_of(cudaError_t error);

}  // namespace omni::played
