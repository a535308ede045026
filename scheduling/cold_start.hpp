// Cold start: a training in several compute groups begins with one group. At the beginning
// parameters change the most, so old gradients do the most harm (Omnivore).
#pragma once

#include <functional>
#include <optional>

#include "scheduling/guard/guarded_training.hpp"

namespace omni {

class ColdStartedTraining {
 public:
  // As GuardedTraining's. cold: iterations with one group. regroup: makes all groups train again.
  ColdStartedTraining(ComputeGroups& groups, DataFeed& train, DataFeed* test, TrainingState state,
                      TrainerOptions options, TrainerEvents events, bool guarded,
                      std::uint64_t cold, Workers workers, std::function<void()> regroup);

  // As Trainer's.
  Status run();
  Status evaluate_now();
  const TrainingState& state() const { return trainer_->state(); }

 private:
  void begin(const TrainingState& state, std::uint64_t until);  // 0: to the end

  ComputeGroups& groups_;
  DataFeed& train_;
  DataFeed* test_;
  TrainerOptions options_;
  TrainerEvents events_;
  bool guarded_;
  std::uint64_t cold_;
  std::function<void()> regroup_;
  std::optional<GuardedTraining> trainer_;  // of one group, later of all
};

}  // namespace omni
