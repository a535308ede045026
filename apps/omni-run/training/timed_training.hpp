// Trains on a few images in memory, to see how long iterations take: with a learning rate of 0,
// whose updates take as long, so that no net diverges.
#pragma once

#include <functional>
#include <memory>

#include "apps/omni-run/command_arguments.hpp"
#include "runtime/data/data_feed.hpp"
#include "runtime/data/memory_dataset.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni {

class TimedTraining {
 public:
  static NetArguments without_learning(NetArguments net);  // what the user sets still wins

  // Needs a running Session. `images` are all of one size.
  static Result<std::unique_ptr<TimedTraining>> make(ComputeGroups groups, const TrainableNet& net,
                                                     const Dataset& images,
                                                     const MachineArguments& machine);

  Result<double> seconds(int iterations, Asynchrony asynchrony,
                         const std::function<void(const StepReport&)>& on_iteration = {});
  // Of a run of half a second or more, once the models of every implementation have settled.
  Result<double> mean_seconds();
  // While all groups are at work.
  Result<double> seconds_per_iteration(int iterations, Asynchrony asynchrony);
  ComputeGroups& groups() { return groups_; }
  // Called after each iteration, with their number so far and in all.
  void watch(std::function<void(int done, int all)> watcher) { watcher_ = std::move(watcher); }

 private:
  TimedTraining(ComputeGroups groups, const TrainableNet& net, MemoryDataset images);
  ComputeGroups groups_;
  SolverOptions solver_;
  MemoryDataset images_;
  DataFeed feed_;
  std::function<void(int done, int all)> watcher_{};
};

}  // namespace omni
