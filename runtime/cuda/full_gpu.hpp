// StarPU retries for ever to allocate a tensor on a full GPU, without a message. This file detects
// that and ends the run. It happens if another process took memory, or if the forecast was wrong.
#pragma once

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "runtime/result.hpp"

namespace omni {

// Calls `end`, which does not return, in a worker's thread, after StarPU has failed to allocate on
// a GPU for 20 seconds in a row. It counts only time in which no task began or ended anywhere, and
// that GPU's stream was empty. (A single failure is usual: StarPU then evicts and retries.) Long
// tasks are waited for. Call before StarPU starts; only in a build with CUDA.
void end_when_gpu_stays_full(void (*end)(const Error&));

// Marks that a task computes, or enqueues work of a GPU. Counted only if is_counted, since all
// workers share the counters.
class Computing {
 public:
  Computing() {
    if (is_counted) begun_.fetch_add(1, std::memory_order_relaxed);
  }
  ~Computing() {
    if (is_counted) ended_.fetch_add(1, std::memory_order_relaxed);
  }
  Computing(const Computing&) = delete;
  Computing& operator=(const Computing&) = delete;

  struct Count {
    std::uint64_t begun = 0, ended = 0;
    bool operator==(const Count&) const = default;
  };
  static Count count() {
    const std::uint64_t ended = ended_.load(std::memory_order_relaxed);
    return {begun_.load(std::memory_order_relaxed), ended};
  }

  inline static bool is_counted = false;  // set before tasks run

 private:
  inline static std::atomic<std::uint64_t> begun_ = 0, ended_ = 0;
};

// Memory that StarPU's allocator takes on a GPU for tensors that are all allocated at once. The
// numbers are those of datawizard/malloc.h.
class GpuTensors {
 public:
  // For the first of that size.
  static constexpr std::size_t allocated_for(std::size_t bytes) {
    constexpr auto kShared = static_cast<std::size_t>(kLargestShared);
    return bytes > kShared ? bytes : static_cast<std::size_t>(kPiece);
  }
  // `count` tensors; a fraction if a tensor is split among GPUs.
  void add(double bytes, double count) {
    if (bytes > kLargestShared)
      large_ += round_up(bytes, kPage) * count;
    else
      small_ += round_up(bytes, kBlock) * count;
  }
  std::size_t bytes() const {
    // A piece is full when the next tensor does not fit, so at most kLargestShared is left over.
    return static_cast<std::size_t>(large_ + round_up(small_, kPiece - kLargestShared) /
                                                 (kPiece - kLargestShared) * kPiece);
  }

 private:
  static constexpr double kPiece = 32 << 20;  // small tensors share these
  static constexpr double kLargestShared = kPiece / 8;
  static constexpr double kBlock = 16 << 10;
  static constexpr double kPage = 2 << 20;  // CUDA's, of large tensors

  static double round_up(double value, double unit) { return std::ceil(value / unit) * unit; }
  double large_ = 0, small_ = 0;
};

}  // namespace omni
