#include "tests/played_gpu/host_memory.hpp"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/played_gpu/device.hpp"

namespace omni::played {
namespace {

class PinnedRanges {
 public:
  bool add(const void* address, std::size_t bytes, bool ours) {
    const std::lock_guard lock(mutex_);
    const auto* begin = static_cast<const char*>(address);
    const auto next = ranges_.lower_bound(begin);
    if (next != ranges_.end() && next->first < begin + bytes) return false;
    if (next != ranges_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > begin)
      return false;
    ranges_.emplace(begin, Range{bytes, ours});
    return true;
  }
  // Removes a range of memory, and returns its bytes, or zero if the range is unknown.
  std::size_t remove(const void* address, bool ours) {
    const std::lock_guard lock(mutex_);
    const auto at = ranges_.find(static_cast<const char*>(address));
    if (at == ranges_.end() || at->second.ours != ours) return 0;
    const std::size_t bytes = at->second.bytes;
    ranges_.erase(at);
    return bytes;
  }
  bool hold(const void* address, std::size_t bytes) const {
    const std::lock_guard lock(mutex_);
    const auto* begin = static_cast<const char*>(address);
    auto at = ranges_.upper_bound(begin);
    if (at == ranges_.begin()) return false;
    --at;
    return begin + bytes <= at->first + at->second.bytes && begin < at->first + at->second.bytes;
  }

 private:
  struct Range {
    std::size_t bytes;
    bool ours;  // from cudaHostAlloc; else registered
  };
  mutable std::mutex mutex_;
  std::map<const char*, Range> ranges_;
};

PinnedRanges& pinned() {
  static auto* all = new PinnedRanges;  // never destroyed: used until the very end
  return *all;
}

}  // namespace

bool is_pinned(const void* address, std::size_t bytes) { return pinned().hold(address, bytes); }

}  // namespace omni::played

using namespace omni::played;

cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned) {
  return on_device([&](Device&) {
    if (address == nullptr) return cudaErrorInvalidValue;
    constexpr std::size_t kPage = 4096;
    *address =
        bytes == 0 ? nullptr : std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
    if (bytes == 0) return cudaSuccess;
    if (*address == nullptr) return cudaErrorMemoryAllocation;
    std::memset(*address, 0xFF, bytes);
    pinned().add(*address, bytes, true);
    return cudaSuccess;
  });
}

cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  return cudaHostAlloc(address, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* address) {
  if (address == nullptr) return cudaSuccess;
  const std::size_t bytes = pinned().remove(address, true);
  if (bytes == 0) return noted(cudaErrorInvalidValue);
  std::memset(address, 0xFF, bytes);
  std::free(address);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* address, std::size_t bytes, unsigned) {
  return on_device([&](Device&) {
    if (address == nullptr || bytes == 0) return cudaErrorInvalidValue;
    return pinned().add(address, bytes, false) ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
  });
}

cudaError_t cudaHostUnregister(void* address) {
  return noted(pinned().remove(address, false) != 0 ? cudaSuccess
                                                    : cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  if (!is_pinned(host, 0)) return noted(cudaErrorInvalidValue);
  *device = host;
  return cudaSuccess;
}
