// IterationModel predicts the time per iteration for any number of compute groups. It measures two
// groups that take turns, and simulates other numbers. The simulation uses the task graph of one
// iteration of a group, with the measured lengths of its tasks.
#pragma once

#include <functional>
#include <vector>

#include "layers/net.hpp"
#include "runtime/tasks/models/machine_model.hpp"
#include "scheduling/forecast/group_simulation.hpp"

namespace omni {

// IterationWork is the work of one iteration if each task runs on its fastest kind of worker.
// Decoding does not count, because it is done ahead.
struct IterationWork {
  double groups = 0, merged = 0;  // s of tasks; `merged` includes exchanges of merged parameters
  double exchanges = 0;           // s of exchanges between the groups and the masters
};
IterationWork work_of(const std::vector<IterationTask>& iteration);

class IterationModel {
 public:
  // Train is a function that trains two groups in turn for `iterations` iterations. It returns
  // seconds per iteration.
  using Train = std::function<Result<double>(int iterations)>;
  // `net` is the net of the first group. The groups' workers are those of spread_groups().
  static Result<IterationModel> measure(const Net& net, Workers workers, const Train& train,
                                        int warm_up, int iterations);

  // From now on predicts for a machine with `count` cores of the same kind. All workers must be
  // cores.
  void set_cores(int count);

  double seconds_per_iteration(const GroupLayout& layout, bool in_turn) const {
    return predict(layout, in_turn, task_overhead_);
  }
  IterationWork work() const { return work_of(tasks_); }   // s, from measured lengths
  double task_overhead() const { return task_overhead_; }  // s
  // Returns the measured time of the two groups, to which the overhead was fitted.
  double measured() const { return measured_; }  // s per iteration

 private:
  // Returns the mean of several simulations. Task lengths vary at random, because microseconds can
  // decide which GPU gets a task. Simulations end once the mean is precise, or is clearly above or
  // below a `compared` above 0.
  double predict(const GroupLayout& layout, bool in_turn, double overhead,
                 double compared = 0) const;

  MachineModel machine_;
  std::vector<IterationTask> tasks_;
  double task_overhead_ = 0, measured_ = 0;
};

}  // namespace omni
