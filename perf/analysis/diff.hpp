// What differs between two runs of the same command, beyond noise: `omni-perf diff --help` has the
// rules. What else runs on a machine slows some tasks down, for a while or for a whole run, and
// moves medians by far more than their standard error; hence the fifths and the lower third. Rows:
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

// moved: a placement. only_before, only_after: a codelet that the other run has not.
enum class Verdict { same, slower, faster, moved, only_before, only_after };

struct DiffKey {
  std::string what;  // as above
  std::string codelet{}, implementation{}, kind{}, layer{};
  auto operator<=>(const DiffKey&) const = default;
};

struct DiffRow : DiffKey {
  double before = 0, after = 0;  // s, or a share
  std::size_t count_before = 0, count_after = 0;
  double change = 0;  // relative for times (0.1: 10 % slower), a difference for shares
  double noise = 0;   // 3 standard errors, in the unit of `change`
  double weight = 0;  // the larger share of compute time; 1 for an iteration
  Verdict verdict = Verdict::same;
  bool per_image = false;  // times: of the slices, or mini-batches, that differ in size
};

struct Diff {
  DiffOptions options;
  std::vector<DiffRow> rows;          // those that differ first, then by weight
  std::vector<std::string> warnings;  // why the runs may not be comparable
  bool slower() const;                // or has a new codelet
  bool differs() const;
};

// Refuses runs of different nets (ErrorKind::usage).
Result<Diff> analyse_diff(const Trace& before, const Trace& after, const DiffOptions& options = {});

}  // namespace omni::perf
