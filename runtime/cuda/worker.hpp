// A CudaWorker owns what one CUDA worker of StarPU needs: handles of libraries, which are bound to
// the worker's stream, and memory for intermediate results. It is made when a worker first uses it.
#pragma once

#include <cublasLt.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>

#include "runtime/cuda/check.hpp"
#include "runtime/cuda/devices.hpp"

namespace omni {

class Locals;

class CudaWorker {
 public:
  // Returns the object of the worker that runs the current task. Outside of StarPU's workers (in
  // tests and benchmarks) the calling thread has one of its own, with the device's default stream.
  static CudaWorker& current();

  cudaStream_t stream() const { return stream_; }
  cublasHandle_t blas() const { return blas_; }
  // A cuBLAS handle is also a cuBLASLt handle, by cuBLAS's documentation. Calls of cuBLASLt take
  // the stream as an argument.
  cublasLtHandle_t blas_lt() const { return reinterpret_cast<cublasLtHandle_t>(blas_); }
  cudnnHandle_t dnn() const { return dnn_; }
  int multiprocessors() const { return multiprocessors_; }
  int device() const { return device_; }
  const char* device_name() const { return device_name_.data(); }
  // Returns the most workspace, in bytes, that a library's algorithm may use.
  std::size_t most_workspace() const { return omni::most_workspace(device_bytes_); }
  // Returns the objects that codelets prepare once per worker, for example plans of products. They
  // are destroyed before the handles.
  Locals& prepared() { return *prepared_; }

  // Returns device memory with undefined contents. All kernels of a worker get the same buffer, as
  // they run one after another in one stream. A kernel that needs several pieces asks once and
  // divides the buffer. Throws OutOfGpuMemory.
  void* workspace(std::size_t bytes) { return workspace_.at_least(bytes, stream_); }
  // Returns a second buffer as workspace() does, for copies of bf16 tensors as floats.
  void* copies(std::size_t bytes) { return copies_.at_least(bytes, stream_); }
  // Returns a third buffer, for factors of a product that are rounded to bf16.
  void* factors(std::size_t bytes) { return factors_.at_least(bytes, stream_); }
  std::size_t bytes_for_factors() const { return factors_.bytes(); }  // that it has now

  // Returns one counter for each block that the device can run at once. A kernel finds zeros, and
  // must leave zeros behind.
  unsigned* counters();

  // OthersAtRest tells whether the other workers of the same GPU had nothing to compute since it
  // was made. Times that are measured while they compute are worth nothing.
  class OthersAtRest {
   public:
    explicit OthersAtRest(const CudaWorker& worker);
    bool so_far() const;

   private:
    const CudaWorker& worker_;
    long launches_;
  };

  explicit CudaWorker(cudaStream_t stream);
  ~CudaWorker();
  CudaWorker(const CudaWorker&) = delete;
  CudaWorker& operator=(const CudaWorker&) = delete;

 private:
  long launches_of_others() const;

  cudaStream_t stream_;
  cublasHandle_t blas_ = nullptr;
  cudnnHandle_t dnn_ = nullptr;
  int device_ = 0, multiprocessors_ = 0;
  std::array<char, 256> device_name_{};
  std::size_t device_bytes_ = 0;
  unsigned* counters_ = nullptr;
  std::atomic<long> launches_ = 0;

  class Memory {
   public:
    ~Memory() { cudaFree(data_); }
    void* at_least(std::size_t bytes, cudaStream_t stream);
    std::size_t bytes() const { return bytes_; }

   private:
    void* data_ = nullptr;
    std::size_t bytes_ = 0;
  };
  Memory workspace_, copies_, factors_;
  std::unique_ptr<Locals> prepared_;
};

}  // namespace omni
