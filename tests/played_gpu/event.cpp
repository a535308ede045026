// This file plays events. An event marks a point in a stream. A program can ask whether the stream
// has reached it, wait for it, and measure the time between two events.
#include <chrono>
#include <optional>

#include "tests/played_gpu/device.hpp"
#include "tests/played_gpu/handles.hpp"

namespace omni::played {
namespace {

using Clock = std::chrono::steady_clock;

struct Event {
  const bool timing;
  std::mutex mutex;
  Ticket ticket;
  std::shared_ptr<Clock::time_point> when;  // null: not recorded yet
  int device = 0;
};

Handles<cudaEvent_t, Event>& handles() {
  static auto* all = new Handles<cudaEvent_t, Event>;  // never destroyed: used until the very end
  return *all;
}

// Returns `call(event, its ticket)`, or an error if the event does not exist or its device is
// broken.
template <class Call>
cudaError_t on_event(cudaEvent_t handle, Call call) {
  const auto event = handles().find(handle);
  if (!event) return noted(cudaErrorInvalidResourceHandle);
  std::unique_lock lock(event->mutex);
  const Ticket ticket = event->ticket;
  const int device = event->device;
  lock.unlock();
  return on_device(device, [&](Device& its) { return call(its, ticket); });
}

}  // namespace
}  // namespace omni::played

using namespace omni::played;

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  return on_device([&](Device& device) {
    if (handle == nullptr || flags > (cudaEventBlockingSync | cudaEventDisableTiming))
      return cudaErrorInvalidValue;
    auto event = std::make_shared<Event>((flags & cudaEventDisableTiming) == 0);
    event->device = device.index;
    *handle = handles().add(std::move(event));
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* handle) {
  return cudaEventCreateWithFlags(handle, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return noted(handles().remove(handle) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  return on_device([&](Device&) {
    const auto event = handles().find(handle);
    const auto stream = find_stream(stream_handle);
    if (!event || stream->device != event->device) return cudaErrorInvalidResourceHandle;
    return on_device(stream->device, [&](Device& device) {
      auto when = std::make_shared<Clock::time_point>();
      const Ticket ticket = device.enqueue(stream, [when] { *when = Clock::now(); });
      const std::lock_guard lock(event->mutex);
      event->ticket = ticket;
      event->when = std::move(when);
      return cudaSuccess;
    });
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return on_event(handle, [](Device&, const Ticket& ticket) {
    return ticket.done() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return on_event(handle, [](Device& device, const Ticket& ticket) {
    ticket.wait();
    return device.failure();
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned) {
  return on_event(handle, [&](Device&, const Ticket& ticket) {
    const auto stream = find_stream(stream_handle);
    devices()[static_cast<std::size_t>(stream->device)]->enqueue(
        stream, [] {}, ticket);
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return on_device([&](Device&) {
    const auto first = handles().find(from), second = handles().find(to);
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    for (const auto& event : {first, second})
      if (!event || !event->timing || !event->when) return cudaErrorInvalidResourceHandle;
    if (!first->ticket.done() || !second->ticket.done()) return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(*second->when - *first->when).count();
    return cudaSuccess;
  });
}
