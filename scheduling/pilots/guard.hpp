// Guard finds the learning rate of several groups, up to the rate that the user gave. With old
// gradients the step, rate / (1 - momentum), must be below stable_step() over the curvature
// (groups/momentum.hpp). Without staleness and with momentum 0.9 the bound is 38 over the
// curvature. So a rate that suits one group can be far too large for several, and the curvature is
// not known in advance. The training begins with a share of the rate, which grows unless the loss
// rises. When the loss rises, Guard restores the last good parameters and lowers the share. It does
// the same when, near the loss of guessing, the outputs of a layer are the same for all samples.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "scheduling/checkpoint/training_snapshot.hpp"
#include "scheduling/pilots/loss_watch.hpp"
#include "scheduling/pilots/rate_share.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni {

// With one group Guard does nothing. It begins when there are several groups.
class Guard : public Pilot {
 public:
  std::string_view name() const override { return "guard"; }
  std::size_t bytes(ComputeGroups& groups) const override;
  std::size_t kept_bytes(ComputeGroups& groups) const override;
  Steering steering() const override { return {.share = share_.value()}; }
  std::uint64_t next_rest() const override { return watch_ ? next_ : UINT64_MAX; }
  Advice judge(const StepReport& at) override;
  Status begin(Trainer& training, std::span<const double> saved) override;
  Status rested(Trainer& training) override;
  Result<bool> go_back(Trainer& training, const Error& why) override;
  // If the loss rises at the end of the training, the result is the best of the current and the
  // saved parameters.
  Status end(Trainer& training) override;
  // Returns the numbers of both good states, and all that decisions depend on. So a resumed
  // training restores the same parameters as an uninterrupted one.
  std::vector<double> numbers() const override;
  std::vector<std::shared_ptr<const TrainingSnapshot>> kept() const override;

  // Returns the share of the rate with which `groups` groups are stable, if one group makes a step
  // of the usual size.
  static double first_share(int groups);

 private:
  // A GoodState has a snapshot of a training whose loss was low. `watch` has seen the losses up to
  // the snapshot; for the first snapshot these are losses_now(). The level is the mean of the first
  // window of losses after the snapshot, as earlier losses were computed with older parameters. A
  // snapshot with a level surely above that of the snapshot before it is never restored.
  struct GoodState {
    std::shared_ptr<const TrainingSnapshot> snapshot;
    LossWatch watch;
    std::optional<LossMean> level{};  // none: not measured yet
  };

  // Begins to watch the losses. `saved` are the numbers of a checkpoint, as in Pilot::begin().
  Status watch(Trainer& training, std::span<const double> saved);
  // Restores what numbers() and kept() gave to the checkpoint.
  Status go_on(const Trainer& training, std::span<const double> saved);
  // Restores the numbers of an older version, whose checkpoints have no good states.
  Status go_on_from_older(std::span<const double> saved);
  Status keep(Trainer& training);
  void rest_later(std::uint64_t iteration) { next_ = iteration + stretch(iteration); }
  // Returns true if the mean loss since the last snapshot exceeds the mean between the last two
  // snapshots by `errors` standard errors.
  bool is_higher(double errors) const {
    return before_.count > 0 &&
           stretch_.mean - before_.mean > errors * std::hypot(stretch_.error(), before_.error());
  }
  bool is_worse() const {  // latest_ is surely worse than sure_
    return latest_->level && sure_->level && watch_->surely_above(*latest_->level, *sure_->level);
  }
  Result<std::optional<Error>> why_bad(Trainer& training) const;
  // Returns the losses of mini-batches to come, computed with the current parameters.
  Result<std::vector<double>> losses_now(Trainer& training) const;
  std::uint64_t stretch(std::uint64_t iteration) const;  // iterations to the next decision

  static double rate_of(const Trainer& training);  // by the solver's policy

  RateShare share_;
  std::uint64_t next_ = 0;  // iteration of the next decision, which is mostly to take a snapshot
  std::size_t window_ = 0;  // losses that are judged together
  std::optional<LossWatch> watch_{};  // none: there was only one group so far
  // `stretch_` has the losses since the last snapshot or return. `before_` has the losses between
  // the last two snapshots.
  LossMean stretch_{}, before_{};
  std::optional<GoodState> sure_{}, latest_{};  // none: as watch_; sure_ is the older one
  bool returned_ = false;                       // latest_ was restored since it was taken
  bool dead_at_start_ = false;  // a layer's outputs were the same for all samples from the start on
};

}  // namespace omni
