// Trials runs the trials of a search. Each trial trains from the same parameters on the same
// images, with its own setting. In a cooldown after that, the rate falls to 0. Then the loss is
// measured on other mini-batches.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "scheduling/checkpoint/training_snapshot.hpp"
#include "scheduling/forecast/group_plan.hpp"
#include "scheduling/pilots/health/inspection.hpp"
#include "scheduling/pilots/tuning/search.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni {

// Returns true if a challenger with this step may be given up once its loss is surely higher than
// the champion's. The challenger's step must be less than half of the champion's, which must not be
// near the failing one.
bool may_be_behind(double step, double champion, double failing_step);
// Returns true if the losses are surely, and by more than 5 %, above the champion's on the same
// mini-batches. The champion's losses must be clearly below chance.
bool is_behind(std::span<const double> losses, std::span<const double> champion, double chance);

// A TrialRun is a setting in a search, with the state of its training.
struct TrialRun {
  Setting setting{};
  TrainingSnapshot at;           // state after `iterations`
  std::uint64_t iterations = 0;  // trained from the start of the search
  std::vector<double> losses{};  // by iteration
  double seconds = 0;            // of the iterations
  std::size_t trial = 0;         // index in Trials::all()
};

class Trials : private TrialRunner {
 public:
  struct Budget {
    std::uint64_t length = 0;   // iterations of a trial at first
    std::uint64_t allowed = 0;  // largest number of discarded iterations in all searches
  };
  // `chance` is the loss of a net that has only learned how frequent each class is.
  Trials(Trainer& training, Asynchrony asynchrony, double chance)
      : training_(training), asynchrony_(asynchrony), chance_(chance) {}

  // Returns the cost of one more trial in iterations, with its cooldown and probes.
  std::uint64_t cost(std::uint64_t iterations) const {
    return iterations + cooldown_of(iterations) + probes() / kProbesPerIteration;
  }
  // Returns true if the budget allows one more trial of `iterations` iterations.
  bool can_afford(std::uint64_t iterations, const Budget& budget) const {
    return lost + cost(iterations) <= budget.allowed;
  }
  // Searches around the given setting. If the found one is the champion's, the training has the
  // champion's groups and parameters afterwards. Otherwise it has the parameters from before the
  // search, and the groups of the found setting. A failed search leaves the given groups.
  Result<Found> search(const Setting& given, SearchPlan plan, const Budget& budget);

  const std::vector<Trial>& all() const { return trials_; }  // of the last search
  const TrialRun& champion() const { return champion_; }
  // Returns the factor by which iterations are faster with the largest number of groups worth a
  // trial than with the number at the last search's start; 1: not known.
  double speedup() const;
  int count() const { return trial_count_; }  // trials so far, in this process
  // `lost` counts the iterations of trials and measurements whose results were discarded, in all
  // processes. `lost_seconds` is the time that this process spent on them.
  std::uint64_t lost = 0;
  double lost_seconds = 0;

  // Between searches three states of the training are saved. `older` and `newer` are the last two
  // good states. `before_search` is the state before the last search, or the last good state before
  // that search. It is not replaced while nothing is learned, or while no good state was saved
  // since the last return.
  enum Saved { older, newer, before_search };
  const TrainingSnapshot& saved(Saved which) const;
  // Returns the three saved states themselves, not copies. The functions below change them.
  std::vector<std::shared_ptr<const TrainingSnapshot>> kept() const;
  // Restores the states that kept() returned.
  void take(std::span<const std::shared_ptr<const TrainingSnapshot>> kept);
  Status keep();                // `newer` becomes `older`, and the current state becomes `newer`
  Status keep_before_search();  // saves the current state as all three
  void protect_newer() { before_search_ = start_ = champion_.at; }  // saves `newer` as all three
  void discard_champion();    // counts its iterations as lost, too
  void go_back(Saved which);  // restores this state; the good ones become copies of it

  static constexpr int kSnapshots = 4;  // that are held at most
  static std::uint64_t cooldown_of(std::uint64_t iterations) { return iterations / 4 + 1; }
  // A probe is a forward pass, which takes a third of an iteration's time.
  static constexpr std::uint64_t kProbesPerIteration = 3;
  std::uint64_t probes() const {  // number of mini-batches on which trials are compared
    return std::clamp<std::uint64_t>(256 / batch(), 6, 12);
  }

 private:
  struct Piece {
    Status ended{};
    TrainingState state{};       // after the piece
    std::uint64_t done = 0;      // iterations
    std::vector<double> ends{};  // by iteration: when it ended, in seconds
    double seconds = 0, simulated = 0;
  };
  struct PieceOptions {
    double learning_rate = 0, momentum = 0;
    bool cooldown = false;
    Compensation compensation = Compensation::theory;
  };
  using IsLost = std::function<bool(std::uint64_t done)>;

  Result<StepSweep> sweep(double first_step, double factor, std::size_t most) override;
  void swept(const StepSweep& sweep, const StepRange& range) override;
  Result<TrialResult> challenge(const Setting& setting, std::uint64_t iterations) override;
  Result<TrialResult> defend(std::uint64_t iterations) override {
    return advance(champion_, iterations);
  }
  void promote() override { std::swap(champion_, challenger_); }
  bool can_afford(std::uint64_t iterations) const override {
    return can_afford(iterations, budget_);
  }
  void decided(const std::string& reason) override;

  // Continues the training of `run` up to `iterations` iterations and evaluates it.
  Result<TrialResult> advance(TrialRun& run, std::uint64_t iterations);
  Result<TrialResult> evaluate(const TrialRun& run, TrainingState state, std::uint64_t iterations,
                               std::uint64_t& spent);
  // Trains one iteration for each element of `losses`, with the groups in use and without reports.
  Piece train_piece(const TrainingState& from, std::span<double> losses,
                    const PieceOptions& options, const IsLost& is_lost = {});
  Result<Probe> probe(std::uint64_t count);
  // Copies a state with the current parameters. Of several ranks each keeps all of it, so that it
  // can be restored in any number of groups. Their replicas follow from the master copies.
  Status take(TrainingSnapshot& into, const TrainingState& state, bool with_replicas = true);
  Status time_groups();
  Result<double> seconds_per_iteration(int groups);
  double seconds_of(int groups) const override;
  void lose(std::uint64_t iterations, double seconds);
  // Converts iterations of this number of groups to iterations of the number at the start of the
  // search that take as long.
  std::uint64_t at_start(std::uint64_t iterations, int groups) const {
    return static_cast<std::uint64_t>(static_cast<double>(iterations) * seconds_of(groups) /
                                      seconds_of(start_groups_));
  }
  std::uint64_t batch() const { return training_.groups().net().options().batch; }

  Trainer& training_;
  Asynchrony asynchrony_;
  double chance_;
  Budget budget_{};
  Saturation timed_;  // seconds by number of groups; empty: not timed yet
  // During a search, these are its start and the two settings that are compared. Between searches,
  // start_ is the older saved state, and the champion's state is the newer one.
  TrainingSnapshot start_;
  TrialRun champion_, challenger_;
  TrainingSnapshot before_search_;
  double failing_step_ = INFINITY;  // see SearchPlan
  std::vector<Trial> trials_;
  double spread_ = 0, loss_at_start_ = 0;  // of a probe of one mini-batch, at the start of a search
  int start_groups_ = 1;                   // at the start of a search
  int trial_count_ = 0;
};

}  // namespace omni
