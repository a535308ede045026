// TimedTraining measures how long iterations take, on a few images in memory. Nets are read with
// `learns` false. So the learning rate is 0, unless the user sets one, and no net diverges. Updates
// take as long as with any other rate. While it lives, a GPU tries all algorithms for a shape when
// it first meets it, so that no trial is timed.
#pragma once

#include <functional>
#include <memory>

#include "apps/omni-run/command_arguments.hpp"
#include "codelets/cuda/trial_time.hpp"
#include "runtime/data/feed/data_feed.hpp"
#include "runtime/data/memory_dataset.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni {

class TimedTraining {
 public:
  // Needs a running Session. All `images` must have the same size.
  static Result<std::unique_ptr<TimedTraining>> make(ComputeGroups groups, const TrainableNet& net,
                                                     const Dataset& images,
                                                     const MachineArguments& machine);

  Result<double> seconds(int iterations, Asynchrony asynchrony,
                         const std::function<void(const StepReport&)>& on_iteration = {});
  // Returns the mean of a run of at least half a second, after the performance models have settled.
  Result<double> mean_seconds();
  // Returns the time per iteration while all groups compute.
  Result<double> seconds_per_iteration(int iterations, Asynchrony asynchrony);
  ComputeGroups& groups() { return groups_; }
  // `watcher` is called after each iteration with the numbers of iterations done and in all.
  void watch(std::function<void(int done, int all)> watcher) { watcher_ = std::move(watcher); }

 private:
  TimedTraining(ComputeGroups groups, const TrainableNet& net, MemoryDataset images);
  TrialTime::Lifted lifted_;
  ComputeGroups groups_;
  SolverOptions solver_;
  MemoryDataset images_;
  DataFeed feed_;
  std::function<void(int done, int all)> watcher_{};
};

}  // namespace omni
