// These functions check what CUDA, cuBLAS and cuDNN return. A failure becomes an exception, which
// the codelet's callback turns into a reported task error.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <cstddef>
#include <new>

namespace omni {

// These functions throw CudaError, or OutOfGpuMemory with the state of the current device. They are
// not inline, because exceptions and strings take nvcc longer to compile than a kernel.
[[noreturn]] void throw_cuda_error(const char* what, const char* why);
[[noreturn]] void throw_out_of_gpu_memory(const char* what, std::size_t asked);

// `asked` is how many bytes of device memory the call wanted to allocate; 0: unknown.
inline void check(cudaError_t code, const char* what, std::size_t asked = 0) {
  if (code == cudaSuccess) return;
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, so that the next call does not report it
    throw_out_of_gpu_memory(what, asked);
  }
  throw_cuda_error(what, cudaGetErrorString(code));
}

inline void check(cublasStatus_t code, const char* what) {
  if (code == CUBLAS_STATUS_ALLOC_FAILED) throw_out_of_gpu_memory(what, 0);
  if (code != CUBLAS_STATUS_SUCCESS) throw_cuda_error(what, cublasGetStatusString(code));
}

// Throws only if memory is lacking: for calls that cuDNN may refuse for other reasons.
inline void check_memory(cudnnStatus_t code, const char* what) {
  if (code == CUDNN_STATUS_ALLOC_FAILED) throw std::bad_alloc();  // main memory
  if (code == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    throw_out_of_gpu_memory(what, 0);
}

inline void check(cudnnStatus_t code, const char* what) {
  check_memory(code, what);
  if (code != CUDNN_STATUS_SUCCESS) throw_cuda_error(what, cudnnGetErrorString(code));
}

}  // namespace omni
