// The trials of a search: each trains from the same parameters on the same images, with its own
// setting. Then the rate falls to 0, and other mini-batches tell how good the result is.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "scheduling/checkpoint/training_snapshot.hpp"
#include "scheduling/forecast/group_plan.hpp"
#include "scheduling/pilots/health/inspection.hpp"
#include "scheduling/pilots/tuning/search.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni {

// A setting in a search, with its training.
struct TrialRun {
  Setting setting{};
  TrainingSnapshot at;           // behind so many iterations of training
  std::uint64_t iterations = 0;  // from the start of the search
  std::vector<double> losses{};  // of them
  double seconds = 0;            // of them
  std::size_t trial = 0;         // number in Trials::all()
};

class Trials : private TrialRunner {
 public:
  // As much as a search may cost.
  struct Budget {
    std::uint64_t length = 0;   // iterations of a trial at first
    std::uint64_t allowed = 0;  // iterations that are not kept, of all searches
  };
  // chance: the loss of a net that has learned how often each class comes.
  Trials(Trainer& training, Asynchrony asynchrony, double chance)
      : training_(training), asynchrony_(asynchrony), chance_(chance) {}

  // In iterations, of one more trial.
  std::uint64_t cost(std::uint64_t iterations) const {
    return iterations + cooldown_of(iterations) + probes() / kProbesPerIteration;
  }
  // Whether one more trial of so many iterations fits.
  bool can_afford(std::uint64_t iterations, const Budget& budget) const {
    return lost + cost(iterations) <= budget.allowed;
  }
  // A search around the setting in use. Groups and parameters are then those of any trial.
  Result<Found> search(const Setting& given, SearchPlan plan, const Budget& budget);

  const std::vector<Trial>& all() const { return trials_; }  // of the last search
  const TrialRun& champion() const { return champion_; }
  int told() const { return trials_told_; }
  // What trials and measuring took and did not keep: iterations, of all processes; seconds.
  std::uint64_t lost = 0;
  double lost_seconds = 0;

  // Between searches: the last parameters that were good, and those before.
  const TrainingSnapshot& before() const { return start_; }
  void keep();     // what the training has now is good
  void go_back();  // to before(), of which both become copies

  static constexpr int kSnapshots = 3;  // that are held, at most
  static std::uint64_t cooldown_of(std::uint64_t iterations) { return iterations / 4 + 1; }
  static constexpr double kLearned = 0.98;                 // of the loss at chance
  static constexpr std::uint64_t kProbesPerIteration = 3;  // a forward pass takes a third
  std::uint64_t probes() const {  // mini-batches that trials are compared by
    return std::clamp<std::uint64_t>(256 / batch(), 6, 12);
  }

 private:
  struct Piece {
    Status ended{};
    TrainingState state{};       // after it
    std::uint64_t done = 0;      // iterations
    std::vector<double> ends{};  // of them, in seconds
    double seconds = 0, simulated = 0;
  };
  struct PieceOptions {
    double learning_rate = 0, momentum = 0;
    bool cooldown = false;
    Compensation compensation = Compensation::theory;
  };
  using IsLost = std::function<bool(std::uint64_t done)>;

  Result<TrialResult> challenge(const Setting& setting, std::uint64_t iterations) override;
  Result<TrialResult> defend(std::uint64_t iterations) override {
    return advance(champion_, iterations);
  }
  void promote() override { std::swap(champion_, challenger_); }
  bool can_afford(std::uint64_t iterations) const override {
    return can_afford(iterations, budget_);
  }
  void decided(const std::string& reason) override;

  // The iterations of `run` from those done up to so many, then its result.
  Result<TrialResult> advance(TrialRun& run, std::uint64_t iterations);
  Result<TrialResult> evaluate(const TrialRun& run, TrainingState state,
                               std::uint64_t iterations, std::uint64_t& spent);
  // As many iterations as losses, with the groups in use; nobody is told.
  Piece train_piece(const TrainingState& from, std::span<double> losses,
                    const PieceOptions& options, const IsLost& is_lost = {});
  Result<Probe> probe(std::uint64_t count);
  Status time_groups();
  Result<double> seconds_per_iteration(int groups);
  double seconds_of(int groups) const;
  void lose(std::uint64_t iterations, double seconds);
  std::uint64_t batch() const { return training_.groups().net().options().batch; }

  Trainer& training_;
  Asynchrony asynchrony_;
  double chance_;
  Budget budget_{};
  Saturation timed_;  // numbers of groups; among them that of the first search
  // Of a search: its start, and the two that are compared.
  TrainingSnapshot start_;
  TrialRun champion_, challenger_;
  std::vector<Trial> trials_;
  double spread_ = 0, loss_at_start_ = 0;  // of the outputs, at the start of a search
  int start_groups_ = 1;                   // of a search
  int trials_told_ = 0;
};

}  // namespace omni
