// The mini-batches of one compute group: submits their tasks and collects their results. For a
// group of another rank it submits the tasks that this rank does for that group.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/tasks/calls/task_chain.hpp"
#include "runtime/tasks/submission.hpp"
#include "runtime/tasks/worker_set.hpp"
#include "scheduling/groups/rank_sums.hpp"
#include "scheduling/groups/under_way.hpp"
#include "scheduling/strategies/strategy.hpp"
#include "scheduling/training/evaluator.hpp"
#include "scheduling/training/event_queue.hpp"
#include "scheduling/training/training_feed.hpp"

namespace omni {

struct FinishedUpdate {
  MiniBatch batch;
  UpdateRule rule;
  GroupOutcome outcome;
  double simulated = 0;  // seconds, by the virtual clock
};

class GroupRun {
 public:
  // Passes of one mini-batch whose images may be held at once.
  static constexpr int kHeld = 2;

  // `traced`: tasks belong to an iteration of the trace; else to none.
  GroupRun(ComputeGroups& groups, int group, TrainingFeed& feed, EventQueue& events,
           Strategy& strategy, bool traced);
  GroupRun(const GroupRun&) = delete;
  GroupRun& operator=(const GroupRun&) = delete;

  // Submits a new mini-batch up to the merged phase of its first pass. An event tells when it
  // arrives there, if wanted. Submission waits until the mini-batch before is complete.
  void begin(const MiniBatch& batch, bool announce, double simulated = 0);
  // The oldest mini-batch that is not submitted completely.
  const MiniBatch& next_to_complete() const {
    return updates_[completed_ % kUnderWay].update.batch;
  }
  // Submits the rest of that mini-batch. An event tells when its update is done.
  Status complete(const UpdateRule& rule);
  // Likewise, for as many passes as may hold images; the rest follows later. True: nothing is left.
  Result<bool> advance(const UpdateRule& rule);
  // Results of the oldest mini-batch whose update is done, each once: as far as this rank has them,
  // beside what other ranks `told`.
  Result<GroupOutcome> read_outcome(const GroupOutcome& told = {});
  // The oldest mini-batch, with these results.
  FinishedUpdate collect(const GroupOutcome& outcome);

  bool may_begin() const {
    return (across_ || completed_ == begun_) && begun_ - collected_ < kUnderWay;
  }
  // Whether mini-batches that arrive freely are completed when they begin.
  bool is_whole() const { return whole_; }

 private:
  struct Update {
    GroupUpdate update;
    UpdateReport report;
    Step first;                                // its first pass, of this rank's images
    Step merged;                               // of a guest: of all images
    std::uint64_t passes = 1;                  // through the net
    std::uint64_t submitted = 0, tallied = 0;  // of them
    Tally tally;
    double simulated = 0;
    bool announced = false;
  };
  Update& of(std::uint64_t count) { return updates_[count % kUnderWay]; }
  std::uint64_t first_of(const Update& update, std::uint64_t pass) const {
    return update.update.batch.first + pass * feed_.batch();
  }
  Submission submission(const Update& update, const WorkerSet* workers) const;
  Step next_step(const Update& update, std::uint64_t pass);
  void start(Update& update);
  void start_pass(Update& update);
  void end_submission();
  // The strategy counts updates as they are submitted. What arrives freely on several ranks it
  // counts as it is told: all ranks at the same place.
  bool counts_when_told() const { return across_ && !strategy_.in_order(); }
  void begin_updates(Update& update);
  void submit_pass(Update& update);
  void submit_updates(const GroupUpdate& update, Net::Phase phase);
  void serve(Update& update);
  ExchangeOrder exchange_order() const {
    return strategy_.in_order() ? ExchangeOrder::submission : ExchangeOrder::arrival;
  }
  void announce(std::span<Tensor* const> when);
  Status tally_next(Update& update);  // reads the metrics of its next pass

  Net& net_;
  Net* const guest_;  // has the merged phase, if this rank computes it but net_ lacks it; else null
  const std::vector<Param*> params_;
  const WorkerSet& workers_;
  int group_;
  TrainingFeed& feed_;
  EventQueue& events_;
  Strategy& strategy_;
  bool traced_;
  RankSums* sums_;   // null: there is one rank
  bool here_;        // this rank is of the group
  bool across_;      // groups are on several ranks
  bool leads_;       // this rank tells the trace of the group's updates
  bool leaves_net_;  // the group is here, and its merged phase is not in net_
  bool merges_;      // its merged phase, if there is one, is here
  bool whole_;
  bool alone_;                       // then a mini-batch of one pass can be one chain
  std::optional<ChainScope> chain_;  // from begin() to the end of complete()
  std::array<Update, kUnderWay> updates_;
  std::uint64_t begun_ = 0, completed_ = 0, read_ = 0, collected_ = 0;
};

}  // namespace omni
