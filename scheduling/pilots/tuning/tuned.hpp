// Finds the compute groups, the momentum and the learning rate of a training: a synchronous cold
// start, then searches and stretches of training in turn, and at the end a cooldown of the rate.
// What the best trial has learned is kept. A loss that rises brings back the last good parameters.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduling/pilots/loss_watch.hpp"
#include "scheduling/pilots/tuning/trials.hpp"

namespace omni {

// What was found, which replaces the solver's, and when the next search is due.
struct Tuning {
  double momentum = 0, learning_rate = 0;
  bool warm = false;              // the loss has left the level of chance
  std::uint64_t next_search = 0;  // iteration; UINT64_MAX: none
  double highest_step = 0;        // it and larger ones have lost the training before; 0: none
  std::uint64_t returns = 0;      // to earlier parameters
};

class Tuned : public Pilot {
 public:
  // The groups of the training are as many as may be used at most. It starts with those in use,
  // and without numbers of before with a search around the solver's momentum and rate.
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
  Status go_on();  // searches that are due, then where to rest next
  Status search_now();
  Status adopt(const Found& found, std::uint64_t searched);
  Result<bool> restore(const Error& why);                   // false: it was in vain too often
  std::uint64_t next_search(std::uint64_t searched) const;  // iteration
  void say_layout();                                        // when it is another one
  std::uint64_t left() const;                               // iterations
  std::uint64_t horizon() const;         // iterations that the budget is a share of
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
  Trainer* training_ = nullptr;  // once it has begun
  Tuning tuning_;
  bool began_ = false;  // the rate does not rise any more
  std::uint64_t next_rest_ = UINT64_MAX;
  double seconds_before_ = 0;  // by other processes
  double chance_ = 0;          // loss of a net that has learned how often each class comes
  std::optional<Trials> trials_{};
  std::optional<LossWatch> watch_{}, watch_before_{}, watch_at_good_{};
  int told_groups_ = 0;
};

}  // namespace omni
