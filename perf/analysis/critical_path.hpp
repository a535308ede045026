// This analysis finds the critical path: the longest chain of dependent tasks, and what a faster
// codelet would have saved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/trace/dependencies.hpp"
#include "perf/trace/trace.hpp"

namespace omni::perf {

struct PathRow {
  std::string codelet;
  std::size_t tasks = 0;
  double seconds = 0;
};

struct WhatIf {
  std::string codelet;
  double seconds = 0;  // wall time of a replay with this codelet `factor` times as fast
  double saved = 0;    // s, compared with CriticalPath::replayed
};

struct CriticalPath {
  double wall = 0;                   // s
  double length = 0;                 // s
  std::vector<std::uint32_t> tasks;  // indices into Trace::tasks, from first to last
  std::vector<PathRow> rows;         // longest first
  double factor = 2;
  double replayed = 0;          // s: wall time of the replay with unchanged codelets
  std::vector<WhatIf> what_if;  // those that save most come first
};

// Returns the tasks of the longest path. Of equal paths it takes that with the later task.
std::vector<std::uint32_t> longest_path(const Trace& trace, const Dependencies& dependencies);

// Replays for the codelets that are named. If none are, replays for those with most compute time.
CriticalPath analyse_critical_path(const Trace& trace, const Dependencies& dependencies,
                                   double factor = 2,
                                   const std::vector<std::string>& codelets = {});

}  // namespace omni::perf
