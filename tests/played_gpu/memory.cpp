#include "tests/played_gpu/memory.hpp"

#include <fmt/format.h>
#include <sanitizer/asan_interface.h>  // nothing without the sanitizer
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "tests/played_gpu/device.hpp"

namespace omni::played {
namespace {

constexpr unsigned char kPoison = 0xFF;
constexpr std::size_t kAlignment = 256;  // as cudaMalloc's
constexpr std::size_t kGuard = 256;      // at least so much between two allocations

std::size_t padded(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment + kGuard;
}

// Returns the first byte that is not poison, or `end` if all bytes are poison.
unsigned char* first_written(unsigned char* begin, unsigned char* end) {
  // memcmp quickly tests the usual case, in which every byte equals the byte before it.
  if (*begin == kPoison &&
      std::memcmp(begin, begin + 1, static_cast<std::size_t>(end - begin - 1)) == 0)
    return end;
  return std::find_if(begin, end, [](unsigned char byte) { return byte != kPoison; });
}

}  // namespace

// The guard zones are not counted as the device's memory, so more memory is mapped.
Memory::Memory(std::size_t bytes, long allocations)
    : capacity_(bytes), mapped_(bytes + bytes / 8 + kGuard), allocations_left_(allocations) {
  void* mapped = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    stop_program(
        fmt::format("no address space for {} MiB (lower OMNI_PLAYED_GPU_MEMORY)", bytes >> 20));
  begin_ = static_cast<unsigned char*>(mapped);
  touched_end_ = begin_ + kGuard;
  std::memset(begin_, kPoison, kGuard);
  ASAN_POISON_MEMORY_REGION(begin_, mapped_);
}

Memory::~Memory() {
  ASAN_UNPOISON_MEMORY_REGION(begin_, mapped_);
  munmap(begin_, mapped_);
}

unsigned char* Memory::place_for(std::size_t bytes) const {
  unsigned char* place = begin_ + kGuard;
  for (const auto& [begin, size] : allocations_) {
    if (begin >= place + padded(bytes)) return place;
    place = begin + padded(size);
  }
  return place + padded(bytes) <= begin_ + mapped_ ? place : nullptr;
}

void* Memory::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (allocations_left_ == 0 || bytes > capacity_ - used_) return nullptr;
  unsigned char* place = place_for(bytes);
  if (place == nullptr) return nullptr;
  unsigned char* end = place + padded(bytes);
  ASAN_UNPOISON_MEMORY_REGION(place, padded(bytes));
  if (end > touched_end_) {
    std::memset(touched_end_, kPoison, static_cast<std::size_t>(end - touched_end_));
    touched_end_ = end;
  }
  if (first_written(place, end) != end)
    stop_program("device memory was written after it had been freed");
  ASAN_POISON_MEMORY_REGION(place + bytes, padded(bytes) - bytes);
  allocations_.emplace(place, bytes);
  used_ += bytes;
  if (allocations_left_ > 0) --allocations_left_;
  return place;
}

Memory::Allocations::iterator Memory::release(Allocations::iterator at) {
  const auto [begin, bytes] = *at;
  unsigned char* const data_end = begin + bytes;
  unsigned char* const end = begin + padded(bytes);
  ASAN_UNPOISON_MEMORY_REGION(begin - kGuard, padded(bytes) + kGuard);
  if (const auto* written = first_written(data_end, end); written != end)
    stop_program(fmt::format("device memory was written {} bytes behind the end of {} bytes",
                             written - data_end, bytes));
  if (const auto* written = first_written(begin - kGuard, begin); written != begin)
    stop_program(fmt::format("device memory was written {} bytes before the begin of {} bytes",
                             begin - written, bytes));
  std::memset(begin, kPoison, bytes);
  ASAN_POISON_MEMORY_REGION(begin - kGuard, padded(bytes) + kGuard);
  used_ -= bytes;
  return allocations_.erase(at);
}

bool Memory::release(void* address) {
  const std::lock_guard lock(mutex_);
  const auto at = allocations_.find(static_cast<unsigned char*>(address));
  if (at == allocations_.end()) return false;
  release(at);
  return true;
}

void Memory::release_all() {
  const std::lock_guard lock(mutex_);
  for (auto at = allocations_.begin(); at != allocations_.end();) at = release(at);
}

bool Memory::contains(const void* address) const {
  return address >= begin_ && address < begin_ + mapped_;
}

bool Memory::holds(const void* address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  auto* const first = static_cast<unsigned char*>(const_cast<void*>(address));
  auto at = allocations_.upper_bound(first);
  if (at == allocations_.begin()) return false;
  --at;
  const auto offset = static_cast<std::size_t>(first - at->first);
  return offset <= at->second && bytes <= at->second - offset;
}

std::size_t Memory::available() const {
  const std::lock_guard lock(mutex_);
  return allocations_left_ == 0 ? 0 : capacity_ - used_;
}

}  // namespace omni::played
