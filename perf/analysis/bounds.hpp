// What dependencies and workers allow: the longest chain of dependent tasks, what a faster codelet
// would have given the whole run, and how fast the same tasks could have run at best.
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

// ---- how fast the same tasks could have run at best, whatever the scheduler: no faster than the
// longest chain of dependent tasks, no faster than all workers busy all the time.
//
// Workers of several kinds: the time T of the best division of the work (a linear program) is at
// least sum over classes of count * min over kinds of weight[kind] * length[class, kind], for any
// weights with sum over kinds of weight * workers = 1. The best weights are exact for two kinds and
// found by ascent for more; any weights give a valid bound. A class is a codelet, a layer and a
// cost; its length on a kind is the mean of what was seen there, and a class never seen on a kind
// is taken to be unable to run there. ----

struct KindArea {
  std::string kind;
  std::size_t workers = 0;
  double compute = 0;  // s, as run
  double weight = 0;   // of the bound; see above
};

struct Bounds {
  double wall = 0;           // s
  double area = 0;           // s
  double critical_path = 0;  // s
  std::vector<KindArea> kinds;
  std::size_t classes = 0;              // of tasks
  std::size_t classes_on_one_kind = 0;  // of several kinds; they make `area` an estimate

  double best() const { return area > critical_path ? area : critical_path; }
  double efficiency() const { return wall > 0 ? best() / wall : 0; }
};

Bounds analyse_bounds(const Trace& trace, const Dependencies& dependencies);

}  // namespace omni::perf
