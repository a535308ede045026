// Device memory for as long as something is tried out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/cuda/worker.hpp"

namespace omni {

class TrialMemory {
 public:
  // Throws OutOfGpuMemory.
  TrialMemory(const CudaWorker& worker, std::size_t bytes) : stream_(worker.stream()) {
    // There is no allocation of nothing.
    check(cudaMallocAsync(&data_, std::max<std::size_t>(bytes, 1), stream_), "trying an algorithm",
          bytes);
  }
  ~TrialMemory() { cudaFreeAsync(data_, stream_); }
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  void fill(int byte, std::size_t bytes) const {
    check(cudaMemsetAsync(data_, byte, bytes, stream_), "filling memory to try an algorithm");
  }

 private:
  cudaStream_t stream_;
  void* data_ = nullptr;
};

// Device memory where a relu was computed of nothing but NaN, in the worker's stream: whether it is
// NaN there, too, and not 0. A maximum need not be, and nobody would hear of a training that
// diverges.
inline bool kept_nan(const CudaWorker& worker, const void* values, std::size_t bytes_of_one) {
  std::uint32_t bits = 0;
  check(cudaMemcpyAsync(&bits, values, bytes_of_one, cudaMemcpyDeviceToHost, worker.stream()),
        "copying a result");
  check(cudaStreamSynchronize(worker.stream()), "waiting for an algorithm that is tried");
  return bits != 0;
}

}  // namespace omni
