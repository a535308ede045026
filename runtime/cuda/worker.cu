#include "runtime/cuda/worker.hpp"

#include <starpu.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "runtime/cuda/cuda_error.hpp"
#include "runtime/tasks/device_context.hpp"

namespace omni {

void throw_cuda_error(const char* what, const char* why) {
  throw CudaError(std::string(what) + ": " + why);
}

namespace {

// The objects are found by StarPU's number of the worker, because one thread may drive several
// workers. Outside of StarPU's workers the number is -1.
thread_local std::unordered_map<int, std::unique_ptr<CudaWorker>> workers;

}  // namespace

void release_cuda_workers() {
  starpu_execute_on_each_worker([](void*) { workers.clear(); }, nullptr, STARPU_CUDA);
}

CudaWorker& CudaWorker::current() {
  const bool started = starpu_is_initialized() != 0;
  const int id = started ? starpu_worker_get_id() : -1;
  std::unique_ptr<CudaWorker>& worker = workers[id];
  if (!worker)
    worker = std::make_unique<CudaWorker>(id >= 0 ? starpu_cuda_get_local_stream() : nullptr);
  return *worker;
}

CudaWorker::CudaWorker(cudaStream_t stream)
    : stream_(stream), prepared_(std::make_unique<Locals>()) {
  check(cudaGetDevice(&device_), "asking for the device");
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device_), "asking for the device's properties");
  multiprocessors_ = properties.multiProcessorCount;
  device_bytes_ = properties.totalGlobalMem;
  std::copy_n(properties.name, device_name_.size() - 1, device_name_.data());
  check(cublasCreate(&blas_), "starting cuBLAS");
  check(cublasSetStream(blas_, stream), "giving cuBLAS its stream");
  check(cudnnCreate(&dnn_), "starting cuDNN");
  check(cudnnSetStream(dnn_, stream), "giving cuDNN its stream");
}

// Failures of the destructor are ignored, as no caller could handle them.
CudaWorker::~CudaWorker() {
  cudaSetDevice(device_);  // another device may be current in this thread
  prepared_.reset();
  cudaFree(counters_);
  if (dnn_ != nullptr) cudnnDestroy(dnn_);
  if (blas_ != nullptr) cublasDestroy(blas_);
}

unsigned* CudaWorker::counters() {
  if (counters_ == nullptr) {
    constexpr std::size_t kMostBlocks = 32;  // per multiprocessor
    const std::size_t bytes = sizeof(unsigned) * kMostBlocks * multiprocessors_;
    check(cudaMallocAsync(reinterpret_cast<void**>(&counters_), bytes, stream_),
          "counters of blocks", bytes);
    check(cudaMemsetAsync(counters_, 0, bytes, stream_), "clearing counters");
  }
  return counters_;
}

void* CudaWorker::Memory::at_least(std::size_t bytes, cudaStream_t stream) {
  if (bytes > bytes_) {
    // The memory is freed in the stream's order, when the kernels enqueued before are done.
    if (data_ != nullptr) check(cudaFreeAsync(data_, stream), "freeing a workspace");
    data_ = nullptr;
    bytes_ = 0;
    check(cudaMallocAsync(&data_, bytes, stream), "a working buffer", bytes);
    bytes_ = bytes;
  }
  return data_;
}

}  // namespace omni
