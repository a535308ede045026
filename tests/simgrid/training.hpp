// Trains compute groups on the simulated machine this program runs on. As Trainer does, but while
// it waits simulated time goes on. No kernel runs, so nothing is learnt; all that is scheduled is
// real.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "scheduling/groups/group_run.hpp"

namespace omni::test {

class SimulatedTraining {
 public:
  // options: how mini-batches are cut.
  static Result<std::unique_ptr<SimulatedTraining>> make(const NetSpec& spec, int groups,
                                                         BuildOptions options);

  // In turn, or as they arrive: simulated seconds per iteration, without the first third of them,
  // while groups start.
  Result<double> seconds_per_iteration(int iterations, bool in_turn);
  // In turn; `warmed_up` is called between the two, when nothing is under way.
  Status train(std::uint64_t warm_up, std::uint64_t iterations,
               const std::function<void()>& warmed_up);
  const Net& net() const { return groups_.net(); }
  static Workers workers();

 private:
  SimulatedTraining(ComputeGroups groups, DatasetPair data);
  void start(std::uint64_t iterations);
  Status take_turns(std::uint64_t until);
  Status run_freely(std::uint64_t until);
  GroupEvent next_event();
  Status finish(int group);

  ComputeGroups groups_;
  DatasetPair data_;
  DataFeed feed_;
  EventQueue events_;
  std::optional<TrainingFeed> ahead_;
  std::vector<std::unique_ptr<GroupRun>> runs_;
  std::uint64_t begun_ = 0;
  std::vector<double> finished_at_;  // s, by iteration
};

}  // namespace omni::test
