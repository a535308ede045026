// Time per iteration for any number of compute groups: measured with two groups that take turns,
// predicted for other numbers. And the task graph of one iteration of a group, with the lengths of
// its tasks, from what a training submitted and measured.
#pragma once

#include <functional>
#include <vector>

#include "layers/net.hpp"
#include "runtime/tasks/models/machine_model.hpp"
#include "scheduling/forecast/group_simulation.hpp"

namespace omni {

// Work of one iteration, each task at its shortest length; without decoding, which is ahead of it.
struct IterationWork {
  double groups = 0, merged = 0;  // s, of tasks; exchanges of merged parameters are merged work
  double exchanges = 0;           // s, between the groups and the masters
};
IterationWork work_of(const std::vector<IterationTask>& iteration);

class IterationModel {
 public:
  // Makes the two groups train so many iterations in turn; returns seconds per iteration.
  using Train = std::function<Result<double>(int iterations)>;
  // `net` is the first group's, whose workers are those of spread_groups().
  static Result<IterationModel> measure(const Net& net, Workers workers, const Train& train,
                                        int warm_up, int iterations);

  // Of a machine with so many cores like these. Needs workers that are all cores.
  void set_cores(int count);

  double seconds_per_iteration(const GroupLayout& layout, bool in_turn) const {
    return predict(layout, in_turn, task_overhead_);
  }
  IterationWork work() const { return work_of(tasks_); }   // measured
  double task_overhead() const { return task_overhead_; }  // s
  // The measured time of the two groups, to which the prediction was fitted.
  double measured() const { return measured_; }  // s per iteration

 private:
  // The mean of simulations with random variations of task lengths. Where GPUs share slices,
  // microseconds decide which GPU gets which task, as in reality. Few will do where only the side
  // of `compared` counts (0: it does not).
  double predict(const GroupLayout& layout, bool in_turn, double overhead,
                 double compared = 0) const;

  MachineModel machine_;
  std::vector<IterationTask> tasks_;
  double task_overhead_ = 0, measured_ = 0;
};

}  // namespace omni
