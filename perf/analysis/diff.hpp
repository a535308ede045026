// What differs between two runs of the same command, beyond noise.
//
// Rows: median length of a task by codelet, implementation, layer and kind of worker ("kernel");
// share of a codelet's tasks that ran on a kind of worker ("placement"); median time of an
// iteration
// ("iteration"). A row differs when all of these hold:
//   - it changed by more than `threshold` (relative; of a placement: of all tasks of the codelet);
//   - by more than 3 standard errors of the difference of the medians (of a share: binomial);
//   - it matters: the codelet has at least `matters` of the compute time of one of the runs.
// The first `skip` iterations warm up and calibrate, and are left out.
#pragma once

#include <string>
#include <vector>

#include "perf/trace/trace.hpp"

namespace omni::perf {

struct DiffOptions {
  double threshold = 0.15;
  double matters = 0.01;
  std::size_t skip = 2;
};

enum class Verdict { same, slower, faster, moved };  // moved: a placement

struct DiffRow {
  std::string what;  // "kernel", "placement", "iteration"
  std::string codelet, implementation, kind;
  std::string layer;
  double before = 0, after = 0;  // s, or a share; 0 where there is none
  std::size_t count_before = 0, count_after = 0;
  double change = 0;  // relative for times (0.1: 10 % slower), a difference for shares
  double noise = 0;   // 3 standard errors, in the unit of `change`
  double weight = 0;  // the larger share of compute time; 1 for an iteration
  Verdict verdict = Verdict::same;
};

struct Diff {
  DiffOptions options;
  std::vector<DiffRow> rows;          // those that differ first, by weight
  std::vector<std::string> warnings;  // why the runs may not be comparable
  bool slower() const;
  bool differs() const;
};

Diff analyse_diff(const Trace& before, const Trace& after, const DiffOptions& options = {});

}  // namespace omni::perf
