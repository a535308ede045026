// How often a slice of a mini-batch goes on where it is: a task whose last input another task of
// its slice made finds it in the cache, if both run on one worker. By chance, one of as many as
// there are workers would.
#pragma once

#include <cstdint>

#include "perf/trace/dependencies.hpp"
#include "perf/trace/trace.hpp"

namespace omni::perf {

struct SliceSteps {
  std::uint64_t all = 0;   // tasks that one of their own slice has released
  std::uint64_t kept = 0;  // by the same worker

  // NaN without any.
  double share() const { return static_cast<double>(kept) / static_cast<double>(all); }
};

SliceSteps count_slice_steps(const Trace& trace);

}  // namespace omni::perf
