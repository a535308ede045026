// This header declares the played devices. Environment variables set their number and their memory.
// It also keeps the calling thread's current device, and the errors of devices and threads. A
// device with an error stays broken, as a real one does: nothing runs on it, and every call returns
// the error.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/played_gpu/memory.hpp"
#include "tests/played_gpu/stream.hpp"

namespace omni::played {

class Device {
 public:
  Device(int index, std::size_t bytes, long allocations, long launches_until_death, int major);

  // Breaks the device, for example because a kernel uses an invalid address. The reason is printed
  // to stderr, because the error code says too little.
  void fail(cudaError_t error, const std::string& why);
  cudaError_t failure() const { return failure_; }
  // Counts the launch of a kernel, also of cuBLAS and cuDNN, when it begins.
  void count_launch();
  long launches() const { return launches_; }

  // Runs `work` after all work in the stream, unless the device breaks before. The default stream
  // and blocking streams wait for each other, as CUDA's "legacy" default stream does.
  Ticket enqueue(const std::shared_ptr<Stream>& stream, Work work, const Ticket& after = {});
  std::shared_ptr<Stream> add_stream(bool blocking);
  void remove_stream(const std::shared_ptr<Stream>& stream);
  const std::shared_ptr<Stream>& default_stream() const { return streams_.front(); }
  void wait() const;  // for everything in all streams

  const int index, major;  // of its compute capability
  Memory memory;

 private:
  std::mutex failing_;
  std::atomic<cudaError_t> failure_ = cudaSuccess;
  std::atomic<long> launches_left_;  // negative: no end
  std::atomic<long> launches_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Stream>> streams_;  // the first is the default stream
};

const std::vector<std::unique_ptr<Device>>& devices();
int current_device();  // of the calling thread
// Returns the device whose memory this is, or null if it is no device's.
Device* owner_of(const void* address);

// Stores a call's result as the last error of the calling thread, and returns it.
cudaError_t noted(cudaError_t error);

// Returns `call(device)` for the calling thread's device, unless there is none or it is broken.
// Almost every function of the runtime does this.
template <class Call>
cudaError_t on_device(int index, Call call) {
  if (devices().empty()) return noted(cudaErrorNoDevice);
  Device& device = *devices()[static_cast<std::size_t>(index)];
  if (device.failure() != cudaSuccess) return noted(device.failure());
  return noted(call(device));
}
template <class Call>
cudaError_t on_device(Call call) {
  return on_device(current_device(), call);
}

// Ends the program with this text, for a mistake that a real device would not report.
[[noreturn]] void stop_program(const std::string& why);

}  // namespace omni::played
