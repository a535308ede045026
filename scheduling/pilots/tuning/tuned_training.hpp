// A training that finds its compute groups, momentum and learning rate itself: a synchronous cold
// start, then searches and stretches of training in turn, and at the end a cooldown of the rate.
// What the best trial has learnt is kept. A loss that rises brings back the last good parameters.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "scheduling/checkpoint/training_snapshot.hpp"
#include "scheduling/forecast/group_plan.hpp"
#include "scheduling/pilots/health/inspection.hpp"
#include "scheduling/pilots/loss_watch.hpp"
#include "scheduling/pilots/tuning/search.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni {

struct TunedEvents {
  TrainerEvents training;
  std::function<void(const std::string&)> say;  // one line for people
  // All trials of a search, which began at `iteration`.
  std::function<void(std::span<const Trial>, std::uint64_t iteration)> on_search;
  // The parameters are those of an earlier iteration again, the rate is smaller.
  std::function<void(const std::string& reason, std::uint64_t iteration, std::uint64_t to,
                     double learning_rate)>
      on_return;
  // The numbers of groups that were timed.
  std::function<void(const Saturation&, std::uint64_t iteration)> on_groups;
};

class TunedTraining : private TrialRunner {
 public:
  // `groups` has as many as may be used at most, and uses those that the training starts with;
  // without state.tuning it starts with a search around the net's momentum and rate. make_clock:
  // a virtual clock for so many groups, whose time then counts.
  using MakeClock = std::function<std::unique_ptr<VirtualClock>(int groups)>;
  TunedTraining(ComputeGroups& groups, DataFeed& train, DataFeed* test, TrainingState state,
                TrainerOptions options, Workers workers, TunedEvents events,
                Asynchrony asynchrony = Asynchrony::free, MakeClock make_clock = {});

  // As Trainer's. A stop request during a search rolls the trials back.
  Status run() { return with_checkpoint(train_and_search()); }
  Status evaluate_now();
  const TrainingState& state() const { return state_; }

  // Snapshots held during a search, and between searches.
  static constexpr int kSnapshots = 3;
  // Iterations below which there are no trials.
  static constexpr std::uint64_t kFewest = 1200;

 private:
  static constexpr double kLearned = 0.98;                 // of the loss at chance
  static constexpr std::uint64_t kProbesPerIteration = 3;  // a forward pass takes a third

  // A setting in a search, with its training.
  struct Entrant {
    Setting setting{};
    TrainingSnapshot at;           // behind so many iterations of training
    std::uint64_t iterations = 0;  // from the start of the search
    std::vector<double> losses{};  // of them
    double seconds = 0;            // of them
    std::size_t trial = 0;         // number in trials_
  };
  struct Piece {
    Status ended;
    TrainingState state;       // after it
    std::uint64_t done = 0;    // iterations
    std::vector<double> ends;  // of them, in seconds
    double seconds = 0, simulated = 0;
  };

  // trials.cpp
  Result<Showing> challenge(const Setting& setting, std::uint64_t iterations) override;
  Result<Showing> defend(std::uint64_t iterations) override {
    return advance(champion_, iterations);
  }
  void promote() override { std::swap(champion_, challenger_); }
  bool can_afford(std::uint64_t iterations) const override;
  void decided(const std::string& reason) override;

  Status train_and_search();
  Status search_now();
  Status adopt(const Found& found);
  // The iterations of `entrant` from those done up to so many, then the showing.
  Result<Showing> advance(Entrant& entrant, std::uint64_t iterations);
  Result<Showing> show(TrainingState state, std::uint64_t iterations, std::uint64_t& spent);
  // As many iterations as losses, with the groups in use; without callbacks.
  struct PieceOptions {
    bool cooldown = false;
    Compensation compensation = Compensation::theory;
  };
  using IsLost = std::function<bool(std::uint64_t done)>;
  Piece train_piece(const TrainingState& state, std::span<double> losses,
                    const PieceOptions& options, const IsLost& is_lost = {});
  double seconds_of(int groups) const;
  std::uint64_t next_search(std::uint64_t searched) const;  // iteration
  Result<Probe> probe(std::uint64_t count);
  Status time_groups();
  Result<double> seconds_per_iteration(int groups);
  Status train_until(std::uint64_t iteration);
  Status go_back(Error error);
  void keep();
  Status catch_up(std::uint64_t before);  // with what was due while a trial ran
  Status save() {
    state_.seconds = seconds_;
    return saved_at_ == state_.iteration ? Status() : events_.training.save_checkpoint(state_);
  }
  Status with_checkpoint(Status status);  // a stop leaves one
  Error stopped();
  void lose(std::uint64_t iterations, double seconds);
  void use(int groups) {
    if (groups_.count() != groups) groups_.use(groups, workers_);
  }
  void set_clock(TrainingState& state);  // for a training from there
  void leave_clock();
  double simulated_seconds(int groups) const;
  void say(const std::string& line) const {
    if (events_.say) events_.say(line);
  }
  void say_layout();                     // when it is another one
  std::uint64_t left() const;            // iterations
  std::uint64_t horizon() const;         // iterations that the budget is a share of
  std::uint64_t cooldown_start() const;  // iteration; UINT64_MAX: none
  std::uint64_t length() const;          // of trials
  static std::uint64_t cooldown_of(std::uint64_t iterations) { return iterations / 4 + 1; }
  std::uint64_t probes() const {  // mini-batches that trials are compared by
    return std::clamp<std::uint64_t>(256 / groups_.net().options().batch, 6, 12);
  }
  std::uint64_t window() const {  // losses that are judged together
    return std::clamp<std::uint64_t>(1024 / groups_.net().options().batch, 16, 64);
  }
  std::uint64_t stretch() const {  // iterations from one snapshot to the next
    return std::max<std::uint64_t>(2 * window(), state_.iteration / 8);
  }
  Setting setting() const {
    return {groups_.count(), state_.tuning->momentum, state_.tuning->learning_rate};
  }

  ComputeGroups& groups_;
  DataFeed& train_;
  DataFeed* test_;
  TrainingState state_;
  TrainerOptions options_;
  TunedEvents events_;
  Workers workers_;
  Asynchrony asynchrony_;
  int most_groups_;
  MakeClock make_clock_;
  std::unique_ptr<VirtualClock> clock_;  // for the groups in use
  double chance_;                        // loss of a net that has learnt how often each class comes
  double seconds_;                       // of training and trials, by all processes
  double lost_seconds_ = 0;  // by this process: what trials and measuring took and did not keep
  Saturation timed_;         // numbers of groups; among them that of the first search
  std::optional<std::uint64_t> saved_at_;  // iteration; none: there is more to save
  // Of a search: its start, and the two that are compared. Between searches start_ and champion_.at
  // hold the last two parameters that were good.
  TrainingSnapshot start_;
  Entrant champion_, challenger_;
  LossWatch watch_, watch_at_start_, watch_at_champion_;
  std::vector<Trial> trials_;              // of this search
  double spread_ = 0, loss_at_start_ = 0;  // of the outputs, at the start of a search
  int start_groups_ = 1;                   // of a search
  int trials_told_ = 0;
  int told_groups_ = 0;
};

}  // namespace omni
