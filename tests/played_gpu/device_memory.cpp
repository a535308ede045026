// This file plays cudaMalloc and its relatives.
#include <cuda_runtime_api.h>

#include "tests/played_gpu/device.hpp"
#include "tests/played_gpu/host_memory.hpp"

namespace omni::played {
namespace {

cudaError_t allocate(Device& device, void** address, std::size_t bytes) {
  if (address == nullptr) return cudaErrorInvalidValue;
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  *address = device.memory.allocate(bytes);
  return *address != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

}  // namespace
}  // namespace omni::played

using namespace omni::played;

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  return on_device([&](Device& device) { return allocate(device, address, bytes); });
}

// Memory is freed at once. The real function often waits for the device first. But CUDA does not
// promise this, and memory in use must not be freed.
cudaError_t cudaFree(void* address) {
  return on_device([&](Device&) {
    if (address == nullptr) return cudaSuccess;
    Device* owner = owner_of(address);
    return owner != nullptr && owner->memory.release(address) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

// The memory can be used at once, earlier than CUDA promises. If no memory is free, the call waits
// for memory that cudaFreeAsync will free.
cudaError_t cudaMallocAsync(void** address, std::size_t bytes, cudaStream_t handle) {
  return on_device([&](Device&) {
    const auto stream = find_stream(handle);
    return on_device(stream->device, [&](Device& device) {
      const cudaError_t error = allocate(device, address, bytes);
      if (error != cudaErrorMemoryAllocation) return error;
      device.wait();
      return allocate(device, address, bytes);
    });
  });
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t handle) {
  return on_device([&](Device&) {
    const auto stream = find_stream(handle);
    Device* owner = owner_of(address);
    if (owner == nullptr || !owner->memory.holds(address, 0)) return cudaErrorInvalidValue;
    Device& device = *devices()[static_cast<std::size_t>(stream->device)];
    device.enqueue(stream, [&device, owner, address] {
      if (!owner->memory.release(address))
        device.fail(cudaErrorIllegalAddress, "cudaFreeAsync of what is no allocation");
    });
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  return on_device([&](Device& device) {
    *available = device.memory.available();
    *total = device.memory.capacity();
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  return on_device([&](Device& device) {
    const Device* owner = owner_of(address);
    const bool pinned = owner == nullptr && is_pinned(address, 0);
    auto* const pointer = const_cast<void*>(address);
    *attributes = {};
    attributes->device = owner != nullptr ? owner->index : device.index;
    attributes->type = owner != nullptr ? cudaMemoryTypeDevice
                       : pinned         ? cudaMemoryTypeHost
                                        : cudaMemoryTypeUnregistered;
    attributes->devicePointer = owner != nullptr || pinned ? pointer : nullptr;
    attributes->hostPointer = owner == nullptr ? pointer : nullptr;
    return cudaSuccess;
  });
}
