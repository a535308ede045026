// StarPU tries for ever to allocate a tensor on a GPU that has no room for it, and tells nobody.
// What is here notices: where another process took what the forecast counted on, or the forecast
// was wrong, the run ends instead of waiting.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/result.hpp"

namespace omni {

// `end`, which does not return, is called in a worker's thread once StarPU has failed to allocate
// on a GPU in each of 20 seconds while nothing computed: no task began or ended anywhere, and that
// GPU's stream was empty. (To fail once is usual: StarPU then makes room, and tries again.) A task
// that takes long, because it tries algorithms, say, is waited for, and so is whatever else
// computes. Before StarPU starts; only in a build with CUDA.
void end_when_gpu_stays_full(void (*end)(const Error&));

// While it lives, a task computes, or enqueues what a GPU computes. Counted only where somebody
// looks: all workers share the counters.
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
