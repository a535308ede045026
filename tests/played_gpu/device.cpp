#include "tests/played_gpu/device.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

namespace omni::played {
namespace {

thread_local int chosen_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

long from_environment(const char* name, long otherwise, long least, long most) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || value < least || value > most)
    stop_program(fmt::format("{}='{}' is no number from {} to {}", name, text, least, most));
  return value;
}

std::vector<std::unique_ptr<Device>> make_devices() {
  const long count = from_environment("OMNI_PLAYED_GPUS", 1, 0, 8);
  const long mebibytes = from_environment("OMNI_PLAYED_GPU_MEMORY", 2048, 1, 1L << 20);
  const long launches = from_environment("OMNI_PLAYED_GPU_DIES_AFTER", -1, 0, 1L << 60);
  const long allocations = from_environment("OMNI_PLAYED_GPU_FULL_AFTER", -1, 0, 1L << 60);
  const long major = from_environment("OMNI_PLAYED_GPU_MAJOR", 8, 1, 99);
  std::vector<std::unique_ptr<Device>> made;
  for (int index = 0; index < count; ++index)
    made.push_back(std::make_unique<Device>(index, static_cast<std::size_t>(mebibytes) << 20,
                                            allocations, launches, static_cast<int>(major)));
  return made;
}

}  // namespace

Device::Device(int its_index, std::size_t bytes, long allocations, long launches_until_death,
               int its_major)
    : index(its_index),
      major(its_major),
      memory(bytes, allocations),
      launches_left_(launches_until_death) {
  add_stream(true);
}

// The message is printed before the failure can be seen, because a program may end at once when it
// sees the failure.
void Device::fail(cudaError_t error, const std::string& why) {
  const std::lock_guard lock(failing_);
  if (failure_ != cudaSuccess) return;
  fmt::print(stderr, "played GPU {}: {}: {}\n", index, cudaGetErrorName(error), why);
  failure_ = error;
}

void Device::count_launch() {
  ++launches_;
  if (launches_left_ < 0) return;
  if (launches_left_-- == 0) {
    launches_left_ = -1;
    fail(cudaErrorIllegalAddress, "dies, as OMNI_PLAYED_GPU_DIES_AFTER says");
  }
}

Ticket Device::enqueue(const std::shared_ptr<Stream>& stream, Work work, const Ticket& after) {
  const std::lock_guard lock(mutex_);
  std::vector<Ticket> all{after};
  if (stream == streams_.front()) {
    for (const auto& other : streams_)
      if (other != stream && other->blocking) all.push_back(other->last());
  } else if (stream->blocking) {
    all.push_back(streams_.front()->last());
  }
  return stream->enqueue(
      [this, work = std::move(work)] {
        if (failure_ == cudaSuccess) work();
      },
      std::move(all));
}

std::shared_ptr<Stream> Device::add_stream(bool blocking) {
  const std::lock_guard lock(mutex_);
  return streams_.emplace_back(std::make_shared<Stream>(index, blocking));
}

void Device::remove_stream(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(mutex_);
  std::erase(streams_, stream);
}

void Device::wait() const {
  std::unique_lock lock(mutex_);
  std::vector<Ticket> all;
  for (const auto& stream : streams_) all.push_back(stream->last());
  lock.unlock();
  for (const Ticket& ticket : all) ticket.wait();
}

const std::vector<std::unique_ptr<Device>>& devices() {
  static auto* all = new auto(make_devices());  // never destroyed: used until the very end
  return *all;
}

int current_device() { return chosen_device; }

Device* owner_of(const void* address) {
  for (const auto& device : devices())
    if (device->memory.contains(address)) return device.get();
  return nullptr;
}

cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void stop_program(const std::string& why) {
  fmt::print(stderr, "played GPU: {}\n", why);
  std::abort();
}

}  // namespace omni::played

using namespace omni::played;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(devices().size());
  return noted(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaGetDevice(int* index) {
  *index = current_device();
  return noted(devices().empty() ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaSetDevice(int index) {
  if (index < 0 || index >= static_cast<int>(devices().size()))
    return noted(cudaErrorInvalidDevice);
  chosen_device = index;
  return noted(devices()[static_cast<std::size_t>(index)]->failure());
}

cudaError_t cudaDeviceSynchronize() {
  return on_device([](Device& device) {
    device.wait();
    return device.failure();
  });
}

// A reset does not destroy streams.
cudaError_t cudaDeviceReset() {
  return on_device([](Device& device) {
    device.wait();
    device.memory.release_all();
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  const int count = static_cast<int>(devices().size());
  if (device < 0 || device >= count || peer < 0 || peer >= count)
    return noted(cudaErrorInvalidDevice);
  *can = device != peer ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return on_device([&](Device& device) {
    if (flags != 0) return cudaErrorInvalidValue;
    if (peer < 0 || peer >= static_cast<int>(devices().size()) || peer == device.index)
      return cudaErrorInvalidDevice;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

// The error of a broken device is never cleared.
cudaError_t cudaPeekAtLastError() {
  if (!devices().empty()) {
    const auto& device = devices()[static_cast<std::size_t>(current_device())];
    if (device->failure() != cudaSuccess) return device->failure();
  }
  return last_error;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}
