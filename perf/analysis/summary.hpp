// One screen: what ran, how fast, and where most of the time was lost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/analysis/idle.hpp"
#include "perf/analysis/iterations.hpp"
#include "perf/analysis/kernels.hpp"
#include "perf/analysis/memory.hpp"
#include "perf/trace/dependencies.hpp"
#include "perf/trace/trace.hpp"

namespace omni::perf {

// How often a slice of a mini-batch goes on where it is: a task whose last input another task of
// its slice made finds it in the cache, if both run on one worker. By chance, one of as many as
// there are workers would.
struct SliceSteps {
  std::uint64_t all = 0;   // tasks that one of their own slice has released
  std::uint64_t kept = 0;  // by the same worker

  // NaN without any.
  double share() const { return static_cast<double>(kept) / static_cast<double>(all); }
};

SliceSteps count_slice_steps(const Trace& trace);

struct Loss {
  std::string name;  // a part's, or "decoding"
  double share = 0;  // of worker time
  std::string text;  // what the name means
};

struct Summary {
  double wall = 0;
  std::uint64_t tasks = 0;
  Iterations iterations;
  Idle idle;
  Kernels kernels;
  Memory memory;
  SliceSteps slices;
  std::vector<Loss> losses;  // largest first; at least 1 %
};

Summary analyse_summary(const Trace& trace);

}  // namespace omni::perf
