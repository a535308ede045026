// The longest chain of dependent tasks, and what a faster codelet would have given the whole run.
#pragma once

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
  double seconds = 0;  // wall time of the replay with this codelet faster
  double saved = 0;    // s, against the replay of the run as it was
};

struct CriticalPath {
  double wall = 0;                   // s
  double length = 0;                 // s
  std::vector<std::uint32_t> tasks;  // indices into Trace::tasks, first to last
  std::vector<PathRow> rows;         // longest first
  double factor = 2;
  double replayed = 0;          // s: wall time of the replay with nothing faster
  std::vector<WhatIf> what_if;  // most saved first
};

// The longest path alone; ties go to the later task.
std::vector<std::uint32_t> longest_path(const Trace& trace, const Dependencies& dependencies);

// Replays for the `codelets` named, or if none are for those with most compute time.
CriticalPath analyse_critical_path(const Trace& trace, const Dependencies& dependencies,
                                   double factor = 2,
                                   const std::vector<std::string>& codelets = {});

}  // namespace omni::perf
