// What differs between two runs of the same command, beyond noise. Four kinds of rows:
//   iteration  median time of an iteration
//   codelet    median over the iterations of the compute time of all its tasks
//   kernel     median length of a task by codelet, layer and kind of worker, and again by
//              implementation where there are several
//   placement  share of a codelet's tasks that ran on a kind of worker
// A row differs when all of these hold:
//   - it changed by more than `threshold`: relative to before; of a placement, of all the tasks;
//   - by more than 3 standard errors of the difference. The spread of tasks is taken, or that of
//     the medians of the iterations if it is larger: a machine that is slow for a while is noise;
//   - it matters: it has at least `matters` of the compute time of one of the runs;
//   - there are at least 5 values on both sides.
// The first `skip` iterations warm up and calibrate, and are left out.
#pragma once

#include <string>
#include <vector>

#include "perf/trace/trace.hpp"
#include "runtime/result.hpp"

namespace omni::perf {

struct DiffOptions {
  double threshold = 0.15;
  double matters = 0.01;
  std::size_t skip = 2;
};

enum class Verdict { same, slower, faster, moved };  // moved: a placement

struct DiffRow {
  std::string what;  // as above
  std::string codelet, implementation, kind, layer;
  double before = 0, after = 0;  // s, or a share
  std::size_t count_before = 0, count_after = 0;
  double change = 0;  // relative for times (0.1: 10 % slower), a difference for shares
  double noise = 0;   // 3 standard errors, in the unit of `change`
  double weight = 0;  // the larger share of compute time; 1 for an iteration
  Verdict verdict = Verdict::same;
};

struct Diff {
  DiffOptions options;
  std::vector<DiffRow> rows;          // those that differ first, then by weight
  std::vector<std::string> warnings;  // why the runs may not be comparable
  bool slower() const;
  bool differs() const;
};

// Refuses runs of different nets (ErrorKind::usage).
Result<Diff> analyse_diff(const Trace& before, const Trace& after, const DiffOptions& options = {});

}  // namespace omni::perf
