// Averaging has two strategies in which groups have models of their own. Every few mini-batches all
// groups meet: their models are averaged. Synchronous model averaging (SMA, Crossbow) pulls every
// model towards the average, which moves by the sum of the pulls. Local SGD (and DiLoCo) replaces
// every model by the average, which moves by an outer step. Meetings are tasks, for which the host
// does not wait.
#pragma once

#include "scheduling/strategies/strategy.hpp"

namespace omni {

struct AveragingOptions {
  bool pulls = false;    // true: SMA; false: local SGD
  bool restarts = true;  // if the learning rate drops, all models restart from the average
  int every = 1;         // mini-batches of each group from one meeting to the next
  double pull = 0;       // SMA: alpha
  double rate = 1;       // local SGD: rate of the outer step
  double momentum = 0;   // of the average; with local SGD it is Nesterov's
};

// AveragingNumbers has the places of saved numbers that do not depend on the number of fragments.
// The numbers of fragments follow those of the groups, three for each fragment.
struct AveragingNumbers {
  enum : std::size_t { meetings, rate, restarts, at_start, every, first_group };
  static constexpr std::size_t since(std::size_t group) { return first_group + 2 * group; }
  static constexpr std::size_t steps(std::size_t group) { return since(group) + 1; }
  static constexpr std::size_t fragment(std::size_t groups, std::size_t number) {
    return since(groups) + 3 * number;
  }
  // Returns true if the numbers are of so many groups.
  static bool fit(std::span<const double> saved, std::size_t groups) {
    return saved.size() >= since(groups) && (saved.size() - since(groups)) % 3 == 0;
  }
};

class Averaging final : public Strategy {
 public:
  Averaging(ComputeGroups& groups, const SolverOptions& solver, AveragingOptions options)
      : Strategy(groups, solver), options_(options), progress_(groups.count()) {}

  std::string name() const override { return options_.pulls ? "sma" : "local"; }
  bool may_begin(int group) const override;
  Sends sends(int group) const override {
    return progress_[group].since_meeting + 1 < options_.every ? Sends::nothing
                                                               : Sends::contribution;
  }
  UpdateRule rule(const MiniBatch&, float learning_rate) const override {
    return {learning_rate, own_momentum()};
  }
  ExchangeArgs step(const GroupUpdate& update, std::size_t param) override;
  ExchangeTensors stepped(const GroupUpdate& update, std::size_t param) override;
  void submit_behind(const GroupUpdate& update, std::span<const std::size_t> stepped) override {
    if (!options_.pulls && meets(update)) contribute(update.batch.group, stepped);
  }
  void end(const GroupUpdate& update) override;
  bool conclude() override;
  std::vector<StrategyFigure> figures(int) const override { return {{"meetings", meetings_}}; }

 protected:
  std::vector<double> numbers() const override;
  void take(std::span<const double> numbers) override;
  void begin_anew(std::span<const double> saved) override;

 private:
  using Saved = AveragingNumbers;
  struct Progress {
    double since_meeting = 0, steps = 0;  // updates since the last meeting, and in all
  };
  const Progress& of(const GroupUpdate& update) const { return progress_[update.batch.group]; }
  bool meets(const GroupUpdate& update) const {
    return sends(update.batch.group) == Sends::contribution;
  }
  void contribute(int group, std::span<const std::size_t> params);
  void meet();
  // Restores what does not depend on the interval between meetings.
  void keep(std::span<const double> numbers);

  AveragingOptions options_;
  std::vector<Progress> progress_;  // by group
  double meetings_ = 0;
  double rate_ = 0;        // learning rate of the last mini-batch
  bool restarts_ = false;  // the rate dropped: the next meeting is a restart
  bool at_start_ = true;   // the next meeting leaves out the momentum of the average
};

// Returns true if the learning rate falls by more than rounding errors.
bool is_drop(double from, double to);

}  // namespace omni
