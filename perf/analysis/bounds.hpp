// This analysis computes a lower bound of the time in which the same tasks could have run, whatever
// the scheduler. It is at least the longest chain of dependent tasks, and at least the time in
// which all workers are busy all the time (`area`).
//
// Workers may be of several kinds. The best division of the work takes a time T, a linear program's
// solution. It is at least
//   sum over classes of count * min over kinds of weight[kind] * length[class, kind]
// for any weights with sum over kinds of weight * workers = 1. For two kinds the weights here are
// the best, for more kinds they are found by ascent; any weights give a valid bound.
//
// A class is a codelet, a layer and a cost. Its length on a kind is the mean of its tasks there. A
// class without a task on a kind counts as unable to run there.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "perf/trace/dependencies.hpp"
#include "perf/trace/trace.hpp"

namespace omni::perf {

struct KindArea {
  std::string kind;
  std::size_t workers = 0;
  double compute = 0;  // s, in the run
  double weight = 0;   // in the bound
};

struct Bounds {
  double wall = 0;           // s
  double area = 0;           // s
  double critical_path = 0;  // s
  std::vector<KindArea> kinds;
  std::size_t classes = 0;              // of tasks
  std::size_t classes_on_one_kind = 0;  // if there are several kinds; they make `area` an estimate

  double best() const { return area > critical_path ? area : critical_path; }
  double efficiency() const { return wall > 0 ? best() / wall : 0; }
};

Bounds analyse_bounds(const Trace& trace, const Dependencies& dependencies);

}  // namespace omni::perf
