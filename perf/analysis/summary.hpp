// The summary shows a run on one screen: what ran, how fast, and where most of the time was lost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/analysis/idle.hpp"
#include "perf/analysis/iterations.hpp"
#include "perf/analysis/kernels.hpp"
#include "perf/analysis/memory.hpp"
#include "perf/trace/trace.hpp"

namespace omni::perf {

// SliceSteps counts how often a task runs on the worker that made its last input, where another
// task of its slice made it. Then the input is in the worker's cache. If each task ran on a random
// worker, the share would be 1 / workers.
struct SliceSteps {
  std::uint64_t all = 0;   // tasks whose last input another task of their slice made
  std::uint64_t kept = 0;  // those of them that the same worker ran

  // Returns NaN if there is no such task.
  double share() const { return static_cast<double>(kept) / static_cast<double>(all); }
};

SliceSteps count_slice_steps(const Trace& trace);

struct Loss {
  std::string name;  // of a Part; or "decoding" or "others", which are parts of compute
  double share = 0;  // of the time of all workers
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
  std::vector<Loss> losses;  // of at least 1 %; the largest come first
};

Summary analyse_summary(const Trace& trace);

}  // namespace omni::perf
