// The updates of a training for as long as nothing but its parameters changes: a bounded number of
// mini-batches is under way. Groups finish in turn, in the order of a virtual clock, or as they
// arrive. A strategy says what groups do with their mini-batches.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/signals.hpp"
#include "scheduling/strategies/async.hpp"
#include "scheduling/training/group_run.hpp"
#include "scheduling/training/pilot.hpp"
#include "scheduling/training/training_state.hpp"

namespace omni {

struct LoopOptions {
  SolverOptions solver{};
  Steering steering{};
  MakeStrategy strategy = async();
  std::vector<DataFeed*> feeds{};          // by group, where they take mini-batches of other sizes
  VirtualClock* clock = nullptr;           // decides the order of groups; null: real time does
  std::uint64_t last_sample = UINT64_MAX;  // beyond which nothing is decoded
  bool traced = true;                      // tasks belong to iterations of the trace
  // Called after every update, when the state includes it. None: always go on.
  std::function<Advice(const FinishedUpdate&)> judge{};
  std::function<bool()> must_stop = stop_requested;  // true: no more mini-batches begin
};

// A training that was asked to stop ends with this.
Error stopped_after(std::uint64_t iteration);

class TrainingLoop {
 public:
  // Changes `state` as updates end.
  TrainingLoop(ComputeGroups& groups, DataFeed& train, TrainingState& state, LoopOptions options);
  ~TrainingLoop();  // waits, and releases what is decoded
  TrainingLoop(const TrainingLoop&) = delete;
  TrainingLoop& operator=(const TrainingLoop&) = delete;

  // Trains up to a sample, or to where groups rest before: because the strategy, a judgement or a
  // stop wants it. ErrorKind::diverged: a loss was not finite, or judged so. No task is under way
  // afterwards.
  Status train_until(std::uint64_t sample);
  // Up to that sample, over all rests of the strategy; less after a judgement. A stop before is
  // ErrorKind::interrupted.
  Status train_to(std::uint64_t sample);
  // Brings the strategy and the arrivals in the state up to date.
  void note();
  Status conclude();  // see Strategy

  const Strategy& strategy() const { return *strategy_; }
  const SolverOptions& solver() const { return options_.solver; }
  // Groups use parameters that they have no copies of.
  bool shares_layers() const { return shares_layers_; }

 private:
  Status run_in_order(std::uint64_t limit);
  Status run_freely(std::uint64_t limit);
  bool may_begin(std::uint64_t limit) const {
    return cursor_ < limit && !divergence_ && !rests_ && !options_.must_stop();
  }
  void agree(GroupOutcome& outcome);  // of a group over several ranks: what came out of all
  bool begin(int group, std::uint64_t limit, bool announce);  // false: too few samples are left
  int next_in_order(std::uint64_t turn);
  void take_arrivals();
  void begin_on_clock();
  Result<GroupEvent> next_event();
  UpdateRule update_rule(const GroupRun& run) const;
  Status finish_in_order();
  Status finish_one(const GroupEvent& event);  // the group's oldest mini-batch
  Error diverged() const;
  Error nobody_can_begin(std::uint64_t limit) const;
  GroupRun& run_of(int group) { return *runs_[group]; }

  ComputeGroups& groups_;
  const std::uint64_t batch_;  // samples of an iteration
  TrainingState& state_;
  LoopOptions options_;  // its solver is as steered
  std::unique_ptr<Strategy> strategy_;
  std::uint64_t begun_;   // mini-batches; state_.iteration are finished
  std::uint64_t cursor_;  // samples in them

  bool shares_layers_;
  std::deque<TrainingFeed> feeds_;  // one for each DataFeed
  EventQueue queue_;
  std::optional<RankEvents> reports_;               // of groups on several ranks
  std::vector<std::unique_ptr<GroupRun>> runs_;     // by group
  ArrivalState arrivals_;                           // its clock is options_.clock's
  std::deque<int> order_;                           // groups of the updates under way, as submitted
  std::vector<std::deque<GroupOutcome>> outcomes_;  // by group, of those that are done
  std::optional<Error> divergence_;
  bool rests_ = false;  // as soon as nothing is under way
};

}  // namespace omni
