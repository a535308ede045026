// Trains compute groups on the simulated machine this program runs on. As Trainer does, but while
// it waits simulated time goes on. No kernel runs, so nothing is learnt; all that is scheduled is
// real.
#pragma once

#include <memory>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "scheduling/strategies/async.hpp"
#include "scheduling/training/group_run.hpp"

namespace omni::test {

class SimulatedTraining {
 public:
  // `slice`: images per task; 0: the net decides.
  static Result<std::unique_ptr<SimulatedTraining>> make(const TrainableNet& spec, int groups,
                                                         int slice);

  // In turn, or as they arrive: simulated seconds per iteration while all groups are at work.
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
