// Device memory for as long as something is tried out.
#pragma once

#include <algorithm>
#include <cstddef>

#include "runtime/cuda/worker.hpp"

namespace omni {

class TrialMemory {
 public:
  // Throws std::bad_alloc.
  TrialMemory(const CudaWorker& worker, std::size_t bytes) : stream_(worker.stream()) {
    // There is no allocation of nothing.
    check(cudaMallocAsync(&data_, std::max<std::size_t>(bytes, 1), stream_),
          "allocating memory to try an algorithm");
  }
  ~TrialMemory() { cudaFreeAsync(data_, stream_); }
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  cudaStream_t stream_;
  void* data_ = nullptr;
};

}  // namespace omni
