// Finds the number of groups per device while training (Crossbow's tuner): adds one group to each
// device while that clearly raises the samples per second. What is known is in the checkpoint.
#pragma once

#include <algorithm>
#include <functional>

#include "scheduling/training/trainer.hpp"

namespace omni {

// The rule.
struct GroupGrowth {
  int most = 1;            // groups per device
  double threshold = 0.1;  // by which the throughput must grow
  int groups = 1;          // per device, now
  double best = 0;         // throughput with one group less
  bool settled = false;

  // Takes a measurement with the current number of groups, and decides the next number.
  void note(double samples_per_second);
};

class GrowingTraining : public PiecewiseTraining {
 public:
  // As Trainer's. `groups` has the largest possible number of groups, and trains with
  // `least` or more. A state with TrainingState::growth of as many devices goes on growing.
  GrowingTraining(ComputeGroups& groups, DataFeed& train, DataFeed* test, TrainingState state,
                  TrainerOptions options, TrainerEvents events, Workers workers, int least,
                  std::function<void(const std::string&)> say);

  Status run();

  // Updates of each group: for warm-up, and measured.
  static constexpr std::uint64_t kWarmUp = 10, kMeasured = 30;

 private:
  Result<double> measure();  // samples per second with the groups in use
  void train_from(TrainingState state, std::uint64_t until);
  int in_all() const { return std::min(growth_.groups * devices_, groups_.most()); }  // groups

  Workers workers_;
  int devices_;
  std::function<void(const std::string&)> say_;
  GroupGrowth growth_;
};

}  // namespace omni
