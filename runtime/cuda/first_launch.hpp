// This header calls a function just before the calling thread first launches work on a GPU. A
// library launches later than that call, by the host time that it takes itself.
#pragma once

#include <functional>
#include <utility>

namespace omni {

inline thread_local std::function<void()> on_first_launch;  // empty: none, or it has been called

// Every launch of ours, and every call of a library that launches, calls this function before.
inline void about_to_launch() {
  if (on_first_launch) std::exchange(on_first_launch, nullptr)();
}

}  // namespace omni
