// A training that finds its compute groups, momentum and learning rate itself: a synchronous cold
// start, then searches and epochs of training in turn. What a trial has learnt is kept when it is
// chosen.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "scheduling/optimizer/search.hpp"
#include "scheduling/optimizer/training_snapshot.hpp"
#include "scheduling/optimizer/trial_budget.hpp"
#include "scheduling/trainer.hpp"

namespace omni {

struct TunedEvents {
  TrainerEvents training;
  std::function<void(const std::string&)> say;  // one line for people
  // All trials of a search, which began at `iteration`.
  std::function<void(std::span<const Trial>, std::uint64_t iteration)> on_search;
  // The numbers of groups that were timed.
  std::function<void(const Saturation&, std::uint64_t iteration)> on_groups;
};

class TunedTraining {
 public:
  // `groups` has as many as may be used at most, and uses those that the training starts with;
  // without state.tuning it starts with a search around the net's momentum and rate.
  TunedTraining(ComputeGroups& groups, DataFeed& train, DataFeed* test, TrainingState state,
                TrainerOptions options, Workers workers, TunedEvents events,
                Asynchrony asynchrony = Asynchrony::free);

  // As Trainer's. A stop request during a search rolls the trials back.
  Status run();
  Status evaluate_now();
  const TrainingState& state() const { return state_; }

  // Copies of the training that are held while it searches.
  static constexpr int kSnapshots = 3;

 private:
  using Search = Result<Setting> (*)(const Setting&, const TrialRunner&, std::vector<Trial>&);
  Status train_and_search();
  Status cold_start();
  Status choose_groups();
  // `then`: so many iterations are trained before the next one; 0: that is not known yet.
  Status search(Search around, std::uint64_t usual_trials, std::uint64_t then);
  Result<Trial> run_trial(const Setting& setting, std::uint64_t iterations);
  struct Piece {
    Status ended;
    TrainingState state;         // after it
    std::uint64_t done = 0;      // iterations
    std::vector<double> losses;  // by mini-batch
    std::vector<double> ends;    // of iterations, in seconds
    double seconds = 0;
  };
  // With the groups in use; nobody is told.
  Piece train_piece(const TrainingState& state, std::uint64_t iterations,
                    Compensation compensation);
  Result<double> seconds_per_iteration(int groups);
  Status adopt(const Trial& chosen, std::uint64_t then);
  Status train_until(std::uint64_t iteration);
  Status save();
  Status with_checkpoint(Status status);  // a stop leaves one
  Error stopped();
  void lose(std::uint64_t iterations, double seconds);
  void roll_back(int groups);  // to the start of the search
  void use(int groups);
  void say(const std::string& line) const;
  void say_layout();                                // when it is another one
  std::uint64_t left() const;                       // iterations
  std::uint64_t epoch(std::uint64_t wished) const;  // so many iterations, or what is possible
  void train_for(std::uint64_t epoch);              // before the next search
  void note_search();                               // in the state, for a run that is resumed
  Setting setting() const;

  ComputeGroups& groups_;
  DataFeed& train_;
  DataFeed* test_;
  TrainingState state_;
  TrainerOptions options_;
  TunedEvents events_;
  Workers workers_;
  Asynchrony asynchrony_;
  // The momentum that is searched is the total: what asynchrony adds is taken away.
  Compensation compensation_ = Compensation::theory;
  int most_groups_;
  TrialBudget budget_;
  std::vector<RefusedRate> refused_;  // see TrialRunner
  double seconds_ = 0;                // of training and trials in this run
  double lost_seconds_ = 0;           // of them, what trials and measuring took and did not keep
  double seconds_per_iteration_ = 0;  // as measured last
  std::optional<std::uint64_t> saved_at_;  // iteration; none: there is more to save
  TrainingSnapshot start_;                 // of a search
  struct Trained {
    TrainingSnapshot at;
    double seconds = 0;
  } trained_, best_;  // by the last trial, and by the best of the search
  int trials_ = 0;
  int told_groups_ = 0;
};

}  // namespace omni
