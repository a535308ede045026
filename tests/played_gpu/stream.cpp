#include "tests/played_gpu/stream.hpp"

#include <sched.h>

#include <cstring>

#include "tests/played_gpu/device.hpp"
#include "tests/played_gpu/handles.hpp"

namespace omni::played {
namespace {

// A new thread is bound to the same cores as its creator. A device does not compute on the host's
// cores, so its thread may run on any core.
void unbind_thread() {
  cpu_set_t all;
  std::memset(&all, 0xFF, sizeof all);
  sched_setaffinity(0, sizeof all, &all);
}

Handles<cudaStream_t, Stream>& handles() {
  static auto* all = new Handles<cudaStream_t, Stream>;  // never destroyed: used until the very end
  return *all;
}

cudaError_t create(cudaStream_t* handle, unsigned flags) {
  return on_device([&](Device& device) {
    if (handle == nullptr || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *handle = handles().add(device.add_stream(flags != cudaStreamNonBlocking));
    return cudaSuccess;
  });
}

// Returns `call(device, stream)`, or an error if the stream's device is broken.
template <class Call>
cudaError_t on_stream(cudaStream_t handle, Call call) {
  return on_device([&](Device&) {
    const auto stream = find_stream(handle);
    return on_device(stream->device, [&](Device& device) { return call(device, stream); });
  });
}

}  // namespace

void Progress::advance() {
  {
    const std::lock_guard lock(mutex_);
    ++done_;
  }
  changed_.notify_all();
}

bool Progress::reached(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  return done_ >= number;
}

void Progress::wait_for(std::uint64_t number) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= number; });
}

Stream::Stream(int its_device, bool is_blocking)
    : device(its_device), blocking(is_blocking), thread_([this] { run(); }) {}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

Ticket Stream::enqueue(Work work, std::vector<Ticket> after) {
  Ticket ticket{progress_};
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(work), std::move(after)});
    ticket.number = ++enqueued_;
  }
  changed_.notify_one();
  return ticket;
}

Ticket Stream::last() const {
  const std::lock_guard lock(mutex_);
  return {progress_, enqueued_};
}

void Stream::run() {
  unbind_thread();
  for (std::unique_lock lock(mutex_);;) {
    changed_.wait(lock, [&] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    for (const Ticket& other : item.after) other.wait();
    item.work();
    item = {};  // the objects that `work` holds are destroyed before a Ticket says that it is done
    progress_->advance();
    lock.lock();
  }
}

std::shared_ptr<Stream> find_stream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy)
    return devices()[static_cast<std::size_t>(current_device())]->default_stream();
  auto stream = handles().find(handle);
  if (!stream) stop_program("a stream is used that is not there, or no longer");
  return stream;
}

}  // namespace omni::played

using namespace omni::played;

cudaError_t cudaStreamCreate(cudaStream_t* handle) { return create(handle, cudaStreamDefault); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  return create(handle, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const auto stream = handles().remove(handle);
  if (!stream) return noted(cudaErrorInvalidResourceHandle);
  devices()[static_cast<std::size_t>(stream->device)]->remove_stream(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return on_stream(handle, [](Device& device, const std::shared_ptr<Stream>& stream) {
    stream->last().wait();
    return device.failure();
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return on_stream(handle, [](Device&, const std::shared_ptr<Stream>& stream) {
    return stream->last().done() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  return on_stream(handle, [=](Device& device, const std::shared_ptr<Stream>& stream) {
    if (function == nullptr) return cudaErrorInvalidValue;
    device.enqueue(stream, [=] { function(argument); });
    return cudaSuccess;
  });
}
