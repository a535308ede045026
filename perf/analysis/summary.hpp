// One screen: what ran, how fast, and where most of the time was lost.
#pragma once

#include <string>
#include <vector>

#include "perf/analysis/idle.hpp"
#include "perf/analysis/iterations.hpp"
#include "perf/analysis/kernels.hpp"
#include "perf/analysis/memory.hpp"
#include "perf/common/slice_steps.hpp"
#include "perf/trace/trace.hpp"

namespace omni::perf {

// "scheduling 12 % of worker time"
struct Loss {
  std::string name;  // a part's, or "decoding"
  double share = 0;  // of worker time
  std::string text;  // a sentence
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
