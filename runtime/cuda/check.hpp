// Checks return values of CUDA, cuBLAS and cuDNN: a failure becomes an exception, which the
// codelet's callback turns into a reported task error. Included by .cu files only.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <cstddef>
#include <functional>
#include <new>
#include <utility>

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

// A point in a stream, whose time can be read later.
class TimedEvent {
 public:
  TimedEvent() { check(cudaEventCreate(&event_), "making an event"); }
  ~TimedEvent() { cudaEventDestroy(event_); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;

  void record(cudaStream_t stream) const {
    check(cudaEventRecord(event_, stream), "recording an event");
  }
  // Whether the stream has reached this point.
  bool passed() const {
    const cudaError_t answer = cudaEventQuery(event_);
    if (answer == cudaErrorNotReady)
      cudaGetLastError();  // an answer, no error
    else
      check(answer, "asking for a point in a stream");
    return answer == cudaSuccess;
  }
  // Waits for both; this event is the later one.
  float milliseconds_since(const TimedEvent& begin) const {
    check(cudaEventSynchronize(event_), "waiting for what is timed");
    float passed = 0;
    check(cudaEventElapsedTime(&passed, begin.event_, event_), "reading a time");
    return passed;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// A callback just before the host first launches work on a GPU. The host time that a library takes
// before its own launch is not seen.
inline thread_local std::function<void()> on_first_launch;  // of this thread, once

inline void about_to_launch() {
  if (on_first_launch) std::exchange(on_first_launch, nullptr)();
}

}  // namespace omni
