// This header calls a function just before the calling thread next launches work on a GPU. If a
// library launches the work, its launch follows a little later.
#pragma once

#include <functional>
#include <utility>

namespace omni {

inline thread_local std::function<void()> on_first_launch;  // empty: none, or it has been called

// This function is called before every launch of a kernel, and before every call of a library that
// launches kernels.
inline void about_to_launch() {
  if (on_first_launch) std::exchange(on_first_launch, nullptr)();
}

}  // namespace omni
