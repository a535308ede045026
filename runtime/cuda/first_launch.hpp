// For who wants to know when the host first gives a GPU something to compute: said just before.
// What a library does on the host until its own launch is not seen.
#pragma once

#include <functional>
#include <utility>

namespace omni {

inline thread_local std::function<void()> on_first_launch;  // of this thread, once

inline void about_to_launch() {
  if (on_first_launch) std::exchange(on_first_launch, nullptr)();
}

}  // namespace omni
