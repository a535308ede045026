// SimulatedTraining trains compute groups on the simulated machine on which this program runs. It
// works like Trainer, but its waits let simulated time pass. No kernel runs, so nothing is learned,
// but all scheduling is real.
#pragma once

#include <memory>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "scheduling/strategies/async.hpp"
#include "scheduling/training/group_run.hpp"

namespace omni::test {

class SimulatedTraining {
 public:
  // `slice` is the number of images per task. With 0, the net decides.
  static Result<std::unique_ptr<SimulatedTraining>> make(const TrainableNet& spec, int groups,
                                                         int slice);

  // Returns the simulated seconds per iteration while all groups train, in turn or as groups become
  // free.
  Result<double> seconds_per_iteration(int iterations, bool in_turn);
  const Net& net() const { return groups_.net(); }
  static Workers workers();

 private:
  SimulatedTraining(ComputeGroups groups, DatasetPair data, const SolverOptions& solver);
  Status take_turns(std::uint64_t iterations);
  Status run_freely(std::uint64_t iterations);
  MiniBatch next_batch(std::size_t group);
  Result<GroupEvent> next_event();
  Status finish(int group);

  ComputeGroups groups_;
  SolverOptions solver_;
  DatasetPair data_;
  DataFeed feed_;
  EventQueue events_;
  std::unique_ptr<Strategy> strategy_;
  std::vector<std::unique_ptr<GroupRun>> runs_;
  std::uint64_t begun_ = 0;
  std::vector<double> finished_at_;  // s, by iteration
};

}  // namespace omni::test
