// How long an iteration takes in any number of compute groups: measured in two that take turns,
// predicted for others.
#pragma once

#include <functional>
#include <vector>

#include "runtime/tasks/models/machine_model.hpp"
#include "scheduling/model/iteration_graph.hpp"

namespace omni {

class IterationModel {
 public:
  // Lets the two groups train so many iterations in turn: seconds per iteration.
  using Train = std::function<Result<double>(int iterations)>;
  // `net` is the first group's, whose workers are those of spread_groups().
  static Result<IterationModel> measure(const Net& net, Workers workers, const Train& train,
                                        int warm_up, int iterations);

  double seconds_per_iteration(const GroupLayout& layout, bool in_turn) const {
    return predict(layout, in_turn, task_overhead_);
  }
  IterationWork work() const { return work_of(tasks_); }   // measured
  double task_overhead() const { return task_overhead_; }  // s
  // What the two groups took, to which the prediction was fitted.
  double measured() const { return measured_; }  // s per iteration

 private:
  // The mean of simulations whose tasks differ in length by chance: where GPUs share slices,
  // whoever is first by a microsecond decides who gets what from then on, as it does in reality.
  double predict(const GroupLayout& layout, bool in_turn, double overhead) const;

  MachineModel machine_;
  std::vector<IterationTask> tasks_;
  double task_overhead_ = 0, measured_ = 0;
};

}  // namespace omni
