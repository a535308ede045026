// Finds the learning rate of several groups, up to the given one. With
// gradients that are S updates old, rate / (1 - momentum) must be below about (pi / 2) / (S + 1/2)
// over the curvature. Without staleness and with momentum 0.9 the bound is 38 over the curvature.
// So a rate that is right for one group can be far too large for several, at any time of the
// training, and the curvature is not known in advance. The training begins with a share of the
// rate, and doubles it unless the loss rises. When it rises, the last good parameters are restored
// and the share is halved.
#pragma once

#include <string>
#include <vector>

#include "scheduling/checkpoint/training_snapshot.hpp"
#include "scheduling/pilots/loss_watch.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni {

// With one group there is nothing to guard: it begins to when there are several.
class Guard : public Pilot {
 public:
  std::string_view name() const override { return "guard"; }
  std::size_t bytes(ComputeGroups& groups) const override;
  Steering steering() const override { return {.share = share_}; }
  std::uint64_t next_rest() const override { return watch_ ? next_ : UINT64_MAX; }
  Advice judge(const StepReport& at) override;
  Status begin(Trainer& training, std::span<const double> saved) override;
  Status rested(Trainer& training) override;
  Result<bool> go_back(Trainer& training, const Error& why) override;
  // The end may come in the middle of a rise. Then the best of the parameters at hand are the
  // result.
  Status end(Trainer& training) override;
  std::vector<double> numbers() const override;

  static double first_share(int groups);

 private:
  // All groups begin with a snapshot's parameters, so the next window of losses is its level.
  // Before it, losses tell of older parameters only. A snapshot that is surely worse than the one
  // before is never restored.
  struct Kept {
    TrainingSnapshot snapshot;
    LossWatch watch;
    std::optional<LossMean> level{};
  };

  Status watch(Trainer& training, std::span<const double> saved);  // from now on
  void keep(Trainer& training);
  void rest_later(std::uint64_t iteration) { next_ = iteration + stretch(iteration); }
  bool is_worse() const {  // latest_ than sure_
    return latest_->level && sure_->level && watch_->surely_above(*latest_->level, *sure_->level);
  }
  Result<LossMean> level_now(Trainer& training) const;
  void halve();
  std::uint64_t stretch(std::uint64_t iteration) const;  // iterations to the next snapshot

  double share_ = 1;  // of the learning rate
  // Good snapshots from one doubling of the share to the next, and until the next.
  std::uint64_t patience_ = 1, wait_ = 1;
  std::uint64_t next_ = 0;  // iteration of the next snapshot
  std::size_t window_ = 0;
  std::optional<LossWatch> watch_{};       // none: there was one group so far
  std::optional<Kept> sure_{}, latest_{};  // if there is a watch
  bool returned_ = false;                  // to latest_
};

}  // namespace omni
