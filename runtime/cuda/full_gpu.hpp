// This header ends a run whose GPU stays full. StarPU would retry for ever to allocate a tensor,
// without a message. A GPU is full if another process took memory, or if the forecast was wrong.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/result.hpp"

namespace omni {

// After StarPU has failed to allocate on a GPU for 20 seconds in a row, calls `end` in a worker's
// thread; `end` does not return. Only time counts in which no task ran anywhere and that GPU's
// stream was empty, so long tasks end nothing. (A single failure is usual: StarPU then evicts and
// retries.) Call it before StarPU starts; only in a build with CUDA.
void end_when_gpu_stays_full(void (*end)(const Error&));

// Marks a scope in which a task computes, or enqueues work of a GPU. Scopes are counted only if
// is_counted, because the counters, which all workers share, cost time.
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

}  // namespace omni
