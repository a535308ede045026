#include "runtime/cuda/worker.hpp"

#include <starpu.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/cuda/cuda_error.hpp"
#include "runtime/cuda/first_launch.hpp"
#include "runtime/tasks/device_context.hpp"

namespace omni {

void throw_cuda_error(const char* what, const char* why) {
  throw CudaError(std::string(what) + ": " + why);
}

namespace {

// The objects are found by StarPU's number of the worker, because one thread may drive several
// workers. Outside of StarPU's workers the number is -1.
thread_local std::unordered_map<int, std::unique_ptr<CudaWorker>> workers;

// The workers of all threads.
struct Everyone {
  std::mutex mutex;
  std::vector<const CudaWorker*> workers;
};
Everyone& everyone() {
  static auto* all = new Everyone;  // never destroyed: workers of threads may be destroyed later
  return *all;
}

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
  launches_here = &worker->launches_;
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
  const std::lock_guard lock(everyone().mutex);
  everyone().workers.push_back(this);
}

// Failures of the destructor are ignored, as no caller could handle them.
CudaWorker::~CudaWorker() {
  {
    const std::lock_guard lock(everyone().mutex);
    std::erase(everyone().workers, this);
  }
  if (launches_here == &launches_) launches_here = nullptr;
  cudaSetDevice(device_);  // another device may be current in this thread
  prepared_.reset();
  cudaFree(counters_);
  if (dnn_ != nullptr) cudnnDestroy(dnn_);
  if (blas_ != nullptr) cublasDestroy(blas_);
}

// Everyone is locked.
long CudaWorker::launches_of_others() const {
  long all = 0;
  for (const CudaWorker* each : everyone().workers)
    if (each != this && each->device_ == device_) all += each->launches_;
  return all;
}

CudaWorker::OthersAtRest::OthersAtRest(const CudaWorker& worker) : worker_(worker) {
  const std::lock_guard lock(everyone().mutex);
  launches_ = worker.launches_of_others();
}

// What a worker launches later raises its count. What it launched before is in its stream.
bool CudaWorker::OthersAtRest::so_far() const {
  const std::lock_guard lock(everyone().mutex);
  for (const CudaWorker* each : everyone().workers) {
    if (each->stream_ == worker_.stream_ || each->device_ != worker_.device_) continue;
    if (cudaStreamQuery(each->stream_) == cudaSuccess) continue;
    cudaGetLastError();  // clears the answer, which is no error
    return false;
  }
  return worker_.launches_of_others() == launches_;
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
