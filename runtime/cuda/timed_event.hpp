// A TimedEvent marks a point in a GPU's stream. The time between two of them can be read.
#pragma once

#include <cuda_runtime.h>

#include "runtime/cuda/check.hpp"

namespace omni {

class TimedEvent {
 public:
  TimedEvent() { check(cudaEventCreate(&event_), "making an event"); }
  ~TimedEvent() { cudaEventDestroy(event_); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;

  void record(cudaStream_t stream) const {
    check(cudaEventRecord(event_, stream), "recording an event");
  }
  bool passed() const {
    const cudaError_t answer = cudaEventQuery(event_);
    if (answer == cudaErrorNotReady)
      cudaGetLastError();  // clears the answer, which is no error
    else
      check(answer, "asking for a point in a stream");
    return answer == cudaSuccess;
  }
  // Waits until the stream has reached both events; `begin` is the earlier one.
  float milliseconds_since(const TimedEvent& begin) const {
    check(cudaEventSynchronize(event_), "waiting for what is timed");
    float passed = 0;
    check(cudaEventElapsedTime(&passed, begin.event_, event_), "reading a time");
    return passed;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace omni
