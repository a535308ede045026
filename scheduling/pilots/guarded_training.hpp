// A training in several groups that finds its own learning rate, up to the given one. With
// gradients that are S updates old, rate / (1 - momentum) must be below about (pi / 2) / (S + 1/2)
// over the curvature. Without staleness and with momentum 0.9 the bound is 38 over the curvature.
// So a rate that is right for one group can be far too large for several, at any time of the
// training, and the curvature is not known in advance. The training begins with a share of the
// rate, and doubles it unless the loss rises. When it rises, the last good parameters are restored
// and the share is halved.
#pragma once

#include <functional>

#include "scheduling/pilots/loss_watch.hpp"
#include "scheduling/checkpoint/training_snapshot.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni {

// The first iterations are in one group: at the beginning parameters change the most, so old
// gradients do the most harm (Omnivore).
struct ColdStart {
  std::uint64_t iterations = 0;
  std::function<void(bool all)> use_groups{};  // all of them, or one
};

class GuardedTraining : public PiecewiseTraining {
 public:
  static constexpr int kSnapshots = 3;
  static double first_share(int groups);

  // As Trainer's. Not guarded, or with one group: as a Trainer trains.
  GuardedTraining(ComputeGroups& groups, DataFeed& train, DataFeed* test, TrainingState state,
                  TrainerOptions options, TrainerEvents events, bool guarded, ColdStart cold = {});

  Status run();  // as Trainer's

 private:
  // All groups begin with a snapshot's parameters, so the next window of losses is its level.
  // Before it, losses tell of older parameters only. A snapshot that is surely worse than the one
  // before is never restored.
  struct Kept {
    TrainingSnapshot snapshot;
    LossWatch watch;
    std::optional<LossMean> level{};
  };

  void begin_all(TrainingState state);
  void begin_guarded(TrainingState state, std::uint64_t until = 0);  // 0: the next snapshot
  void keep(const TrainingState& state);
  bool is_lost(double loss);
  bool is_worse() const {  // latest_ than sure_
    return latest_.level && sure_.level && watch_.surely_above(*latest_.level, *sure_.level);
  }
  Result<LossMean> level_now();
  void go_on();
  void halve(TrainingState& state);
  void go_back(const std::string& why);
  Status finish();
  std::uint64_t stretch(std::uint64_t iteration) const;  // iterations to the next snapshot

  bool guarded_;
  ColdStart cold_;
  std::uint64_t until_, end_;  // iteration; 0 and UINT64_MAX: none
  std::size_t window_;
  LossWatch watch_;
  Kept sure_, latest_;
  bool returned_ = false;  // to latest_
};

}  // namespace omni
