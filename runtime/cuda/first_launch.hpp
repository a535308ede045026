// This header calls a function just before the calling thread first launches work on a GPU. A
// library's own launch follows after the host time that the library takes.
#pragma once

#include <functional>
#include <utility>

namespace omni {

inline thread_local std::function<void()> on_first_launch;  // empty: none, or it has been called

// Every launch of a kernel, and every call of a library that launches, is preceded by a call of
// this function.
inline void about_to_launch() {
  if (on_first_launch) std::exchange(on_first_launch, nullptr)();
}

}  // namespace omni
