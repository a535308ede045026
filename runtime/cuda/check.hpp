// What CUDA, cuBLAS and cuDNN return, checked: a failure becomes an exception, which the codelet's
// callback turns into a reported task error. Included by .cu files only.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <new>

namespace omni {

// A CudaError. Elsewhere, since all that exceptions and strings need takes nvcc longer than a
// kernel.
[[noreturn]] void throw_cuda_error(const char* what, const char* why);

inline void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // not sticky: what comes next must not find it again
    throw std::bad_alloc();
  }
  throw_cuda_error(what, cudaGetErrorString(code));
}

inline void check(cublasStatus_t code, const char* what) {
  if (code == CUBLAS_STATUS_ALLOC_FAILED) throw std::bad_alloc();
  if (code != CUBLAS_STATUS_SUCCESS) throw_cuda_error(what, cublasGetStatusString(code));
}

inline bool is_out_of_memory(cudnnStatus_t code) {
  return code == CUDNN_STATUS_ALLOC_FAILED ||  // the host's
         code == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

inline void check(cudnnStatus_t code, const char* what) {
  if (is_out_of_memory(code)) throw std::bad_alloc();
  if (code != CUDNN_STATUS_SUCCESS) throw_cuda_error(what, cudnnGetErrorString(code));
}

}  // namespace omni
