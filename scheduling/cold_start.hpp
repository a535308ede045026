// A training in compute groups that begins with one of them: in the beginning, when parameters
// change the most, old gradients do the most harm (the cold start of Omnivore).
#pragma once

#include <functional>
#include <optional>

#include "scheduling/guard/guarded_training.hpp"

namespace omni {

class ColdStartedTraining {
 public:
  // As GuardedTraining's. cold: iterations with one group. regroup: puts all groups to use again.
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
