// Checks return values of CUDA, cuBLAS and cuDNN: a failure becomes an exception, which the
// codelet's callback turns into a reported task error. Included by .cu files only.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <cstddef>
#include <new>

namespace omni {

// Throw CudaError, or OutOfGpuMemory of the current device. Not inline: exceptions and strings take
// nvcc longer to compile than a kernel.
[[noreturn]] void throw_cuda_error(const char* what, const char* why);
[[noreturn]] void throw_out_of_gpu_memory(const char* what, std::size_t asked);

// `asked`: bytes of device memory that the call wanted to allocate.
inline void check(cudaError_t code, const char* what, std::size_t asked = 0) {
  if (code == cudaSuccess) return;
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // not sticky: what comes next must not find it again
    throw_out_of_gpu_memory(what, asked);
  }
  throw_cuda_error(what, cudaGetErrorString(code));
}

inline void check(cublasStatus_t code, const char* what) {
  if (code == CUBLAS_STATUS_ALLOC_FAILED) throw_out_of_gpu_memory(what, 0);
  if (code != CUBLAS_STATUS_SUCCESS) throw_cuda_error(what, cublasGetStatusString(code));
}

// Throws if memory is lacking; for calls that may be refused for other reasons, too.
inline void check_memory(cudnnStatus_t code, const char* what) {
  if (code == CUDNN_STATUS_ALLOC_FAILED) throw std::bad_alloc();  // the host's
  if (code == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    throw_out_of_gpu_memory(what, 0);
}

inline void check(cudnnStatus_t code, const char* what) {
  check_memory(code, what);
  if (code != CUDNN_STATUS_SUCCESS) throw_cuda_error(what, cudnnGetErrorString(code));
}

}  // namespace omni
