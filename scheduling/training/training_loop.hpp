// TrainingLoop runs the updates of a training while groups, solver and strategy stay the same. It
// limits the number of mini-batches under way. Updates happen in turn, in the order of a virtual
// clock, or as gradients arrive. A Strategy decides how groups use their gradients.
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
  std::vector<DataFeed*> feeds{};          // by group, if passes differ in size; empty: `train`
  VirtualClock* clock = nullptr;           // decides the order of groups; null: real time does
  std::uint64_t last_sample = UINT64_MAX;  // no sample from here on is decoded
  bool traced = true;                      // tasks belong to iterations of the trace
  // `judge` is called after every update with a finite loss, when the state includes it. If it is
  // empty, the training always goes on.
  std::function<Advice(const FinishedUpdate&)> judge{};
  std::function<bool()> must_stop = stop_requested;  // true: no more mini-batches begin
};

// Returns the error with which a training ends after a stop request.
Error stopped_after(std::uint64_t iteration);

class TrainingLoop {
 public:
  // The loop changes `state` whenever an update ends.
  TrainingLoop(ComputeGroups& groups, DataFeed& train, TrainingState& state, LoopOptions options);
  ~TrainingLoop();  // waits for all tasks, and releases mini-batches that were decoded ahead
  TrainingLoop(const TrainingLoop&) = delete;
  TrainingLoop& operator=(const TrainingLoop&) = delete;

  // Trains up to sample number `sample`. Stops earlier if the strategy, the judge or a stop request
  // asks for it. No task is under way afterwards. Returns ErrorKind::diverged if a loss was not
  // finite, or if the judge said go_back.
  Status train_until(std::uint64_t sample);
  // Trains up to sample number `sample`, through all rests of the strategy. Returns early if the
  // judge wants a rest. Returns ErrorKind::interrupted if a stop request came before `sample`.
  Status train_to(std::uint64_t sample);
  // Copies the state of the strategy and of the virtual clock into the training's state.
  void note();
  Result<bool> conclude();  // see Strategy::conclude()

  const Strategy& strategy() const { return *strategy_; }
  const SolverOptions& solver() const { return options_.solver; }
  // Returns true if there are layers without replicas: with one group, or with merged layers.
  bool shares_layers() const { return shares_layers_; }

 private:
  Status run_in_order(std::uint64_t limit);
  Status run_freely(std::uint64_t limit);
  bool may_begin(std::uint64_t limit) const {
    return cursor_ < limit && !divergence_ && !rests_ && !options_.must_stop();
  }
  void agree(GroupOutcome& outcome);  // adds up the outcome over ranks if every rank has all groups
  bool begin(int group, std::uint64_t limit, bool announce);  // false: too few samples are left
  int next_in_order(std::uint64_t turn);
  void take_arrivals();
  void begin_on_clock();
  Result<GroupEvent> next_event();
  UpdateRule update_rule(const GroupRun& run) const;
  Status finish_oldest();
  Status finish_one(const GroupEvent& event);  // ends the group's oldest mini-batch
  Error diverged() const;
  Error nobody_can_begin(std::uint64_t limit) const;
  GroupRun& run_of(int group) { return *runs_[group]; }

  ComputeGroups& groups_;
  const std::uint64_t batch_;  // samples of an iteration
  TrainingState& state_;
  LoopOptions options_;  // its solver includes the pilots' Steering
  std::unique_ptr<Strategy> strategy_;
  std::uint64_t begun_;   // mini-batches, of which state_.iteration are finished
  std::uint64_t cursor_;  // samples in the mini-batches that were begun

  bool shares_layers_;
  std::deque<TrainingFeed> feeds_;  // one for each DataFeed
  EventQueue queue_;
  std::optional<RankEvents> reports_;               // none: every rank has all groups
  std::vector<std::unique_ptr<GroupRun>> runs_;     // by group
  ArrivalState arrivals_;                           // its `clock` is not used
  std::deque<int> order_;                           // groups of the updates under way, as submitted
  std::vector<std::deque<GroupOutcome>> outcomes_;  // by group, of updates that are done
  std::optional<Error> divergence_;
  bool rests_ = false;  // no mini-batch begins any more, as the judge wants a rest
};

}  // namespace omni
