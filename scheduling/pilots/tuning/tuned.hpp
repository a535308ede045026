// Tuned finds the number of compute groups, the momentum and the learning rate of a training. It
// begins with a synchronous cold start, then alternates searches and training, and ends with a
// cooldown of the rate. The training goes on from the best trial. When the loss rises, Tuned
// restores good parameters.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduling/pilots/loss_watch.hpp"
#include "scheduling/pilots/tuning/trials.hpp"

namespace omni {

// The settings found, which replace the solver's, and when the next search is due.
struct Tuning {
  double momentum = 0, learning_rate = 0;
  bool warm = false;              // the loss is below the level of chance
  std::uint64_t next_search = 0;  // iteration; UINT64_MAX: none
  double highest_step = 0;        // with this step or larger ones the training diverged; 0: none
  std::uint64_t returns = 0;      // how often earlier parameters were restored
};

class Tuned : public Pilot {
 public:
  // The training's groups are the largest number that may be used. The pilot starts with those in
  // use. Without saved numbers it starts with the solver's momentum and rate.
  Tuned(Workers workers, Asynchrony asynchrony) : workers_(workers), asynchrony_(asynchrony) {}

  std::string_view name() const override { return "tuned"; }
  std::size_t bytes(ComputeGroups& groups) const override {
    return Trials::kSnapshots * TrainingSnapshot::bytes(groups);
  }
  Steering steering() const override;
  std::uint64_t next_rest() const override { return next_rest_; }
  Advice judge(const StepReport& at) override;
  Status begin(Trainer& training, std::span<const double> saved) override;
  Status rested(Trainer& training) override;
  Result<bool> go_back(Trainer& training, const Error& why) override;
  Status end(Trainer& training) override;
  std::vector<double> numbers() const override;

  const Tuning& tuning() const { return tuning_; }
  std::uint64_t lost() const { return trials_->lost; }  // iterations of trials that were not kept

  // Iterations below which there are no trials.
  static constexpr std::uint64_t kFewest = 1200;

 private:
  Status go_on();  // does the searches that are due, then sets next_rest_
  Status search_now();
  Status adopt(const Found& found, std::uint64_t searched);
  Result<bool> restore(const Error& why);                   // false: after too many returns
  std::uint64_t next_search(std::uint64_t searched) const;  // iteration
  void say_layout();                                        // if the number of groups has changed
  std::uint64_t left() const;                               // iterations
  std::uint64_t horizon() const;         // iterations of which the budget is a share
  std::uint64_t cooldown_start() const;  // iteration; UINT64_MAX: none
  std::uint64_t length() const;          // of trials
  Trials::Budget budget() const;
  std::uint64_t window() const;   // losses that are judged together
  std::uint64_t stretch() const;  // iterations from one snapshot to the next
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
  std::optional<LossWatch> watch_{}, watch_before_{}, watch_at_good_{};
  int announced_groups_ = 0;  // the number in the last message of say_layout()
};

}  // namespace omni
