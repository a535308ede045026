// The mini-batches of one compute group: submits their tasks and collects their results.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/tasks/calls/task_chain.hpp"
#include "runtime/tasks/submission.hpp"
#include "scheduling/evaluator.hpp"
#include "scheduling/groups/event_queue.hpp"
#include "scheduling/groups/rank_sums.hpp"
#include "scheduling/groups/training_feed.hpp"
#include "scheduling/strategies/strategy.hpp"

namespace omni {

struct FinishedUpdate {
  MiniBatch batch;
  UpdateRule rule;
  Tally tally;
  double simulated = 0;  // seconds, by the virtual clock
  std::int64_t staleness = 0, fc_staleness = 0;
};

class GroupRun {
 public:
  // Mini-batches that may be submitted at once: one that computes, and the beginning of the next.
  static constexpr int kUnderWay = 2;
  // Passes of one mini-batch whose images may be held at once.
  static constexpr int kHeld = 2;

  // `sums`: null with one rank. `traced`: tasks belong to an iteration of the trace; else to none.
  GroupRun(ComputeGroups& groups, int group, TrainingFeed& feed, EventQueue& events,
           Strategy& strategy, bool traced, RankSums* sums = nullptr);
  GroupRun(const GroupRun&) = delete;
  GroupRun& operator=(const GroupRun&) = delete;

  // Submits a new mini-batch up to the merged phase of its first pass. An event tells when it
  // arrives there, if wanted.
  void begin(const MiniBatch& batch, bool announce, double simulated = 0);
  // The oldest mini-batch that is not submitted completely.
  const MiniBatch& next_to_complete() const {
    return updates_[completed_ % kUnderWay].update.batch;
  }
  // Submits the rest of that mini-batch. An event tells when its update is done.
  Status complete(const UpdateRule& rule);
  // Likewise, for as many passes as may hold images; the rest follows later. True: nothing is left.
  Result<bool> advance(const UpdateRule& rule);
  // Results of the oldest mini-batch whose update is done.
  Result<FinishedUpdate> collect();

  std::uint64_t images_per_pass() const { return feed_.batch(); }
  bool may_begin() const { return completed_ == begun_ && begun_ - collected_ < kUnderWay; }

 private:
  struct Update {
    GroupUpdate update;
    UpdateReport report;
    Step first;                                // its first pass
    std::uint64_t passes = 1;                  // through the net
    std::uint64_t submitted = 0, tallied = 0;  // of them
    Tally tally;
    double simulated = 0;
  };
  Update& of(std::uint64_t count) { return updates_[count % kUnderWay]; }
  std::uint64_t first_of(const Update& update, std::uint64_t pass) const {
    return update.update.batch.first + pass * feed_.batch();
  }
  Submission submission(const Update& update, const WorkerSet* workers) const;
  Step next_step(const Update& update, std::uint64_t pass);
  void begin_updates(Update& update);
  void submit_pass(Update& update);
  void submit_updates(const GroupUpdate& update, Net::Phase phase);
  void announce(std::span<Tensor* const> when);
  Status tally_next(Update& update);  // reads the metrics of its next pass

  Net& net_;
  const std::vector<Param*> params_;
  const WorkerSet& workers_;
  int group_;
  TrainingFeed& feed_;
  EventQueue& events_;
  Strategy& strategy_;
  bool traced_;
  RankSums* sums_;
  bool alone_;                       // then a mini-batch of one pass can be one chain
  std::optional<ChainScope> chain_;  // from begin() to the end of complete()
  std::array<Update, kUnderWay> updates_;
  std::uint64_t begun_ = 0, completed_ = 0, collected_ = 0;
};

}  // namespace omni
