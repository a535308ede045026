// This file plays copies and fills. A copy from pageable memory reads the data at once, and a copy
// to pageable memory waits until the data are written. With pinned memory on the host, data are
// read and written when the stream reaches the copy.
#include <cuda_runtime_api.h>

#include <cstring>
#include <vector>

#include "tests/played_gpu/device.hpp"
#include "tests/played_gpu/host_memory.hpp"

namespace omni::played {
namespace {

enum class Place { device, pinned, pageable };

// A Block is memory in rows and slices, as cudaMemcpy3D describes it. Simpler copies have one
// slice, or one row.
struct Block {
  char* begin;
  std::size_t pitch, slice;  // bytes from one row, and from one slice, to the next
};
struct Extent {
  std::size_t width, height, depth;  // bytes, rows, slices
  bool empty() const { return width == 0 || height == 0 || depth == 0; }
};

std::size_t span(const Block& block, const Extent& extent) {
  return (extent.depth - 1) * block.slice + (extent.height - 1) * block.pitch + extent.width;
}

Place place_of(const Block& block, const Extent& extent) {
  if (owner_of(block.begin) != nullptr) return Place::device;
  return is_pinned(block.begin, span(block, extent)) ? Place::pinned : Place::pageable;
}

// Returns false if the block begins in device memory, but is not within one allocation.
bool valid(const Block& block, const Extent& extent) {
  const Device* owner = owner_of(block.begin);
  return owner == nullptr || owner->memory.holds(block.begin, span(block, extent));
}

void copy(const Block& to, const Block& from, const Extent& extent) {
  for (std::size_t z = 0; z < extent.depth; ++z)
    for (std::size_t y = 0; y < extent.height; ++y)
      std::memmove(to.begin + z * to.slice + y * to.pitch,
                   from.begin + z * from.slice + y * from.pitch, extent.width);
}

bool fits_kind(cudaMemcpyKind kind, Place to, Place from) {
  const bool to_device = to == Place::device, from_device = from == Place::device;
  switch (kind) {
    case cudaMemcpyHostToHost: return !to_device && !from_device;
    case cudaMemcpyHostToDevice: return to_device && !from_device;
    case cudaMemcpyDeviceToHost: return !to_device && from_device;
    case cudaMemcpyDeviceToDevice: return to_device && from_device;
    case cudaMemcpyDefault: return true;
  }
  return false;
}

cudaError_t submit(const Block& to, const Block& from, const Extent& extent, cudaMemcpyKind kind,
                   cudaStream_t handle, bool synchronous) {
  return on_device([&](Device&) {
    const auto stream = find_stream(handle);
    if (extent.empty()) return cudaSuccess;
    if (to.begin == nullptr || from.begin == nullptr || to.pitch < extent.width ||
        from.pitch < extent.width)
      return cudaErrorInvalidValue;
    const Place target = place_of(to, extent), source = place_of(from, extent);
    if (!fits_kind(kind, target, source) || !valid(to, extent) || !valid(from, extent))
      return cudaErrorInvalidValue;
    Device& device = *devices()[static_cast<std::size_t>(stream->device)];

    if (source == Place::pageable && target == Place::device) {
      auto staged =
          std::make_shared<std::vector<char>>(extent.width * extent.height * extent.depth);
      const Block between{staged->data(), extent.width, extent.width * extent.height};
      copy(between, from, extent);
      device.enqueue(stream, [=, &device] {
        if (!valid(to, extent))
          return device.fail(cudaErrorIllegalAddress, "copy to memory that was freed before");
        copy(to, {staged->data(), between.pitch, between.slice}, extent);
      });
      return cudaSuccess;
    }
    const Ticket ticket = device.enqueue(stream, [=, &device] {
      if (!valid(to, extent) || !valid(from, extent) || place_of(to, extent) != target ||
          place_of(from, extent) != source)
        return device.fail(cudaErrorIllegalAddress, "copy of memory that was freed before");
      copy(to, from, extent);
    });
    const bool between_devices = target == Place::device && source == Place::device;
    if (target == Place::pageable || (synchronous && !between_devices)) ticket.wait();
    return device.failure();
  });
}

Block block(const void* begin, std::size_t pitch, std::size_t rows = 1) {
  return {static_cast<char*>(const_cast<void*>(begin)), pitch, pitch * rows};
}

cudaError_t submit_flat(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                        cudaStream_t stream, bool synchronous) {
  return submit(block(to, bytes), block(from, bytes), {bytes, 1, 1}, kind, stream, synchronous);
}

Block block(const cudaPitchedPtr& memory, const cudaPos& position) {
  Block whole = block(memory.ptr, memory.pitch, memory.ysize);
  whole.begin += position.z * whole.slice + position.y * whole.pitch + position.x;
  return whole;
}

cudaError_t submit_peer(const cudaMemcpy3DPeerParms* copy, cudaStream_t stream, bool synchronous) {
  if (copy->srcArray != nullptr || copy->dstArray != nullptr) return noted(cudaErrorNotSupported);
  return submit(block(copy->dstPtr, copy->dstPos), block(copy->srcPtr, copy->srcPos),
                {copy->extent.width, copy->extent.height, copy->extent.depth},
                cudaMemcpyDeviceToDevice, stream, synchronous);
}

cudaError_t fill(void* address, int value, std::size_t bytes, cudaStream_t handle) {
  return on_device([&](Device&) {
    const auto stream = find_stream(handle);
    if (bytes == 0) return cudaSuccess;
    const Extent extent{bytes, 1, 1};
    const Block all = block(address, bytes);
    const Place place = place_of(all, extent);
    if (place == Place::pageable || !valid(all, extent)) return cudaErrorInvalidValue;
    Device& device = *devices()[static_cast<std::size_t>(stream->device)];
    device.enqueue(stream, [=, &device] {
      if (!valid(all, extent) || place_of(all, extent) != place)
        return device.fail(cudaErrorIllegalAddress, "fill of memory that was freed before");
      std::memset(address, value, bytes);
    });
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace omni::played

using namespace omni::played;

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return submit_flat(to, from, bytes, kind, nullptr, true);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return submit_flat(to, from, bytes, kind, stream, false);
}

cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, std::size_t bytes) {
  return submit_flat(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr, true);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes,
                                cudaStream_t stream) {
  return submit_flat(to, from, bytes, cudaMemcpyDeviceToDevice, stream, false);
}

cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  return submit(block(to, to_pitch), block(from, from_pitch), {width, height, 1}, kind, nullptr,
                true);
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  return submit(block(to, to_pitch), block(from, from_pitch), {width, height, 1}, kind, stream,
                false);
}

cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* copy) {
  return submit_peer(copy, nullptr, true);
}

cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* copy, cudaStream_t stream) {
  return submit_peer(copy, stream, false);
}

cudaError_t cudaMemset(void* address, int value, std::size_t bytes) {
  return fill(address, value, bytes, nullptr);
}

cudaError_t cudaMemsetAsync(void* address, int value, std::size_t bytes, cudaStream_t stream) {
  return fill(address, value, bytes, stream);
}
