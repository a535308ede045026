// A callback just before the host first launches work on a GPU. The host time that a library takes
// before its own launch is not seen.
#pragma once

#include <functional>
#include <utility>

namespace omni {

inline thread_local std::function<void()> on_first_launch;  // of this thread, once

inline void about_to_launch() {
  if (on_first_launch) std::exchange(on_first_launch, nullptr)();
}

}  // namespace omni
