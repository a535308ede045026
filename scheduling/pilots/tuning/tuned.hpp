// Tuned finds the number of compute groups, the momentum and the learning rate of a training. It
// begins with a synchronous cold start, then alternates searches and training, and ends with a
// cooldown of the rate. The training continues from the best trial. When the loss rises, or a
// layer's outputs become the same for all samples, Tuned restores earlier parameters and lowers the
// step.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduling/pilots/loss_watch.hpp"
#include "scheduling/pilots/tuning/trials.hpp"
#include "scheduling/pilots/tuning/tuning.hpp"

namespace omni {

class Tuned : public Pilot {
 public:
  // The ComputeGroups of the training have the largest number of groups that may be used. One group
  // is used until something is learned. Without saved numbers the pilot starts with the solver's
  // momentum and rate.
  Tuned(Workers workers, Asynchrony asynchrony) : workers_(workers), asynchrony_(asynchrony) {}

  std::string_view name() const override { return "tuned"; }
  std::size_t bytes(ComputeGroups& groups) const override {
    return Trials::kSnapshots * TrainingSnapshot::bytes(groups, groups.sums == nullptr);
  }
  Steering steering() const override;
  std::uint64_t next_rest() const override { return next_rest_; }
  Advice judge(const StepReport& at) override;
  Status begin(Trainer& training, std::span<const double> saved) override;
  Status rested(Trainer& training) override;
  Result<bool> go_back(Trainer& training, const Error& why) override;
  Status end(Trainer& training) override;
  std::vector<double> numbers() const override;
  std::size_t kept_bytes(ComputeGroups& groups) const override {
    return kKept * TrainingSnapshot::bytes(groups, false);
  }
  std::vector<std::shared_ptr<const TrainingSnapshot>> kept() const override {
    return trials_->kept();
  }

  const Tuning& tuning() const { return tuning_; }
  std::uint64_t lost() const { return trials_->lost; }  // iterations of trials that were not kept

  // Trainings with fewer iterations after burn-in have no trials.
  static constexpr std::uint64_t kFewest = 400;

 private:
  static constexpr std::size_t kKept = 3;

  // Restores what numbers() and kept() gave to a checkpoint.
  Status take(std::span<const double> saved, const TrainingState& state);
  Status go_on();  // does the searches that are due, then sets next_rest_
  Status search_now();
  Status adopt(const Found& found, std::uint64_t searched);
  Result<bool> restore(const Error& why);  // false: after too many returns
  // Returns why the net cannot learn any more with its present parameters; nothing: no reason is
  // known.
  Result<std::optional<Error>> find_failure();
  void raise_step();  // where nothing is learned, and the step is known to be small
  std::uint64_t next_search(std::uint64_t searched) const;  // after trials of this length
  std::string next_search_text() const;
  void say_layout();                     // if there are several groups, and their number is new
  std::uint64_t left() const;            // iterations
  std::uint64_t horizon() const;         // iterations of which the budget is a share
  std::uint64_t cooldown_start() const;  // iteration; UINT64_MAX: none
  std::uint64_t length() const;          // of trials
  bool search_fits() const;              // now: before the cooldown, and within the budget
  Trials::Budget budget() const;
  std::uint64_t window() const;   // losses that are judged together
  std::uint64_t stretch() const;  // the most iterations from one rest to the next
  Setting setting() const {
    return {training_->groups().count(), tuning_.momentum, tuning_.learning_rate};
  }
  std::uint64_t iteration() const { return training_->state().iteration; }

  Workers workers_;
  Asynchrony asynchrony_;
  Trainer* training_ = nullptr;  // null: before begin()
  Tuning tuning_;
  bool began_ = false;  // burn-in is over
  std::uint64_t next_rest_ = UINT64_MAX;
  double seconds_before_ = 0;  // of the training in earlier processes
  double chance_ = 0;          // loss of a net that has only learned the share of each class
  std::optional<Trials> trials_{};
  // watch_ follows the current losses. Each of the other watches belongs to a saved state.
  std::optional<LossWatch> watch_{}, watch_older_{}, watch_newer_{}, watch_before_search_{};
  bool dead_at_start_ = false;  // a layer's outputs were the same for all samples from the start on
  int announced_groups_ = 0;    // the number at the last call of say_layout()
};

}  // namespace omni
