// This header has the devices that are played. The environment says how many there are and how much
// they hold. It also knows which of them the calling thread uses, and the errors of devices and of
// that thread. A device with an error stays broken, as a real one does: nothing runs on it any more
// and every call returns that error.
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

  // Breaks the device, for example because a kernel uses an address that is not its own. The reason
  // goes to stderr: the error alone would not say enough.
  void fail(cudaError_t error, const std::string& why);
  cudaError_t failure() const { return failure_; }
  // Of kernels, also those of cuBLAS and cuDNN; called when one begins.
  void count_launch();
  long launches() const { return launches_; }

  // Runs `work` after all that is in the stream, unless the device breaks before. The default
  // stream and the blocking ones wait for each other, as CUDA says of the "legacy" default stream.
  Ticket enqueue(const std::shared_ptr<Stream>& stream, Work work, const Ticket& after = {});
  std::shared_ptr<Stream> add_stream(bool blocking);
  void remove_stream(const std::shared_ptr<Stream>& stream);
  const std::shared_ptr<Stream>& default_stream() const { return streams_.front(); }
  void wait() const;  // for everything in all streams

  const int index, major;  // of its compute capability
  Memory memory;

 private:
  std::atomic<cudaError_t> failure_ = cudaSuccess;
  std::atomic<long> launches_left_;  // negative: no end
  std::atomic<long> launches_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Stream>> streams_;  // the first is the default stream
};

const std::vector<std::unique_ptr<Device>>& devices();
int current_device();  // of the calling thread
// The device whose memory this is; null: no device's.
Device* owner_of(const void* address);

// Notes what a call returns as the last error of the calling thread.
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

// Ends the program: what the text says is a mistake that a real device would not report.
[[noreturn]] void stop_program(const std::string& why);

}  // namespace omni::played
