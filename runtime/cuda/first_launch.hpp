// This header calls a function just before the calling thread next launches work on a GPU, and
// counts launches. If a library launches the work, its launch follows a little later.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

namespace omni {

inline thread_local std::function<void()> on_first_launch;  // empty: none, or it has been called
inline thread_local std::atomic<long>* launches_here = nullptr;  // of the current CudaWorker

// This function is called before every launch of a kernel, and before every call of a library that
// launches kernels.
inline void about_to_launch() {
  if (launches_here != nullptr) launches_here->fetch_add(1, std::memory_order_relaxed);
  if (on_first_launch) std::exchange(on_first_launch, nullptr)();
}

}  // namespace omni
