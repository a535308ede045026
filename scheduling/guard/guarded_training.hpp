// A training in several groups that finds its own learning rate, up to the given one. With
// gradients that are S updates old, rate / (1 - momentum) must be below about (pi / 2) / (S + 1/2)
// over the curvature. Without staleness and with momentum 0.9 the bound is 38 over the curvature.
// So a rate that is right for one group can be far too large for several, at any time of the
// training, and the curvature is not known in advance. The training begins with a share of the
// rate, and doubles it while the loss falls. When the loss rises, the last good parameters are
// restored and the share is halved.
#pragma once

#include <optional>

#include "scheduling/guard/loss_watch.hpp"
#include "scheduling/optimizer/training_snapshot.hpp"
#include "scheduling/trainer.hpp"

namespace omni {

class GuardedTraining {
 public:
  static constexpr int kSnapshots = 2;
  static double first_share(int groups);

  // As Trainer's. Not guarded, or with one group: exactly a Trainer.
  GuardedTraining(ComputeGroups& groups, DataFeed& train, DataFeed* test, TrainingState state,
                  TrainerOptions options, TrainerEvents events, bool guarded);

  // As Trainer's.
  Status run();
  Status evaluate_now() { return trainer_->evaluate_now(); }
  const TrainingState& state() const { return trainer_->state(); }
  double seconds() const { return trainer_->seconds(); }

 private:
  // Good parameters may already be on the way to divergence. So the restored snapshot is one that
  // was followed by another good one.
  struct Kept {
    TrainingSnapshot snapshot;
    LossWatch watch;
  };

  void begin(TrainingState state, std::uint64_t until = 0);  // 0: the next snapshot
  void go_on();
  void halve(TrainingState& state);
  void go_back(const std::string& why);
  Status finish();
  std::uint64_t stretch(std::uint64_t iteration) const;  // iterations to the next snapshot

  ComputeGroups& groups_;
  DataFeed& train_;
  DataFeed* test_;
  TrainerOptions options_;
  TrainerEvents events_;
  bool guarded_;
  std::uint64_t end_;  // iteration; UINT64_MAX: none
  std::size_t window_;
  LossWatch watch_;
  Kept sure_, latest_;
  std::optional<Trainer> trainer_;
};

}  // namespace omni
