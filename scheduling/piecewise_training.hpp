// One training by several Trainers, each of which goes on where the last one stopped. Between them
// the number of groups, the learning rate or the parameters may change.
#pragma once

#include <optional>

#include "scheduling/trainer.hpp"

namespace omni {

class PiecewiseTraining {
 public:
  Status evaluate_now() { return trainer_->evaluate_now(); }
  const TrainingState& state() const { return trainer_->state(); }
  double seconds() const { return trainer_->seconds(); }

 protected:
  PiecewiseTraining(ComputeGroups& groups, DataFeed& train, DataFeed* test, TrainerOptions options,
                    TrainerEvents events)
      : groups_(groups),
        train_(train),
        test_(test),
        options_(std::move(options)),
        events_(std::move(events)) {}

  // The next piece, up to an iteration; 0: to the end.
  void begin(TrainingState state, std::uint64_t until) {
    options_.until = until;
    if (trainer_) options_.seconds_before = trainer_->seconds();
    trainer_.emplace(groups_, train_, test_, std::move(state), options_, events_);
  }

  ComputeGroups& groups_;
  DataFeed& train_;
  DataFeed* test_;
  TrainerOptions options_;
  TrainerEvents events_;
  std::optional<Trainer> trainer_;
};

}  // namespace omni
