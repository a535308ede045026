// This analysis finds the differences between two runs of one net that are larger than noise;
// `omni-perf diff --help` has the rules. Other programs on the machine slow some tasks down, for a
// while or for a whole run. That moves medians by far more than their standard error, hence the
// fifths and the lower third in the rules. Rows are:
//   iteration  median time of an iteration
//   codelet    median over the iterations of the compute time of all its tasks
//   kernel     median length of a task by codelet, layer and kind of worker, and again by
//              implementation where there are several; only of tasks that belong to a layer
//   placement  share of a codelet's tasks that ran on a kind of worker
#pragma once

#include <string>
#include <vector>

#include "perf/trace/trace.hpp"
#include "runtime/result.hpp"

namespace omni::perf {

struct DiffOptions {
  double threshold = 0.15;
  double matters = 0.025;
  std::size_t skip = 2;
};

// A placement is `moved`. `only_before` and `only_after` are for a codelet that the other run does
// not have.
enum class Verdict { same, slower, faster, moved, only_before, only_after };

struct DiffKey {
  std::string what;  // "iteration", "codelet", "kernel" or "placement"
  std::string codelet{}, implementation{}, kind{}, layer{};
  auto operator<=>(const DiffKey&) const = default;
};

struct DiffRow : DiffKey {
  double before = 0, after = 0;  // s; of placements, a share
  std::size_t count_before = 0, count_after = 0;
  double change = 0;  // relative change of times (0.1: 10 % slower); difference of shares
  double noise = 0;   // 3 standard errors, in the unit of `change`
  double weight = 0;  // share of compute time, the larger of the two runs; 1 for an iteration
  Verdict verdict = Verdict::same;
  bool per_image =
      false;  // true: times are per image, because slices or mini-batches differ in size
};

struct Diff {
  DiffOptions options;
  std::vector<DiffRow> rows;          // those that differ come first, then by weight
  std::vector<std::string> warnings;  // why the runs may not be comparable
  bool slower() const;                // also true if there is a new codelet
  bool differs() const;
};

// Refuses runs of different nets with ErrorKind::usage.
Result<Diff> analyse_diff(const Trace& before, const Trace& after, const DiffOptions& options = {});

}  // namespace omni::perf
