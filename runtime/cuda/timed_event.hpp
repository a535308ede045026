// A point in a stream, whose time can be read later.
#pragma once

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

}  // namespace omni
