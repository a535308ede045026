// GroupRun submits the tasks of one compute group's mini-batches and collects their results. A run
// is local if the group's net is on this rank. Otherwise it is remote and only steps the parameters
// that this rank owns. On the first rank a run may also have a guest, a net for the merged phase;
// see ComputeGroups::guest().
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
  // The images of at most this many passes of one mini-batch are held at once.
  static constexpr int kHeld = 2;

  // `traced` means that the trace has, for each task, the number of its mini-batch.
  GroupRun(ComputeGroups& groups, int group, TrainingFeed& feed, EventQueue& events,
           Strategy& strategy, bool traced);
  GroupRun(const GroupRun&) = delete;
  GroupRun& operator=(const GroupRun&) = delete;

  // Submits a new mini-batch up to the merged phase of its first pass. Submission waits until the
  // previous mini-batch is submitted completely. may_begin() must be true. With `announce`, an
  // event `arrived` is pushed when the mini-batch reaches the merged phase.
  void begin(const MiniBatch& batch, bool announce, double simulated = 0);
  // Returns the oldest mini-batch that is not submitted completely.
  const MiniBatch& next_to_complete() const {
    return updates_[completed_ % kUnderWay].update.batch;
  }
  // Submits the rest of next_to_complete(). If the run is local, an event `updated` is pushed when
  // this rank's part of the update is done.
  Status complete(const UpdateRule& rule);
  // Like complete(), but submits only as many passes as kHeld allows. Returns true if the
  // mini-batch is then submitted completely. Otherwise another event `arrived` is pushed when the
  // next pass can be submitted.
  Result<bool> advance(const UpdateRule& rule);
  // Reads the outcome of the oldest mini-batch that was not read yet; its update must be done. The
  // tally is added to that of `reported`, which has the sums of other ranks. The staleness is that
  // of this rank.
  Result<GroupOutcome> read_outcome(const GroupOutcome& reported = {});
  // Ends the oldest mini-batch, whose outcome over all ranks is `outcome`.
  FinishedUpdate collect(const GroupOutcome& outcome);

  bool may_begin() const {
    return (across_ || completed_ == begun_) && begun_ - collected_ < kUnderWay;
  }
  // Returns true if groups that update as they arrive submit a mini-batch completely when it
  // begins. There are then no events `arrived`.
  bool completes_at_begin() const;

 private:
  struct Update {
    GroupUpdate update;
    UpdateReport report;
    Step first;                                // the first pass, with this rank's images
    Step merged;                               // the merged phase of the guest, with all images
    std::uint64_t passes = 1;                  // through the net
    std::uint64_t submitted = 0, tallied = 0;  // passes
    Tally tally;
    double simulated = 0;  // seconds, by the virtual clock
    bool announced = false;
  };
  Update& of(std::uint64_t count) { return updates_[count % kUnderWay]; }
  std::uint64_t first_of(const Update& update, std::uint64_t pass) const {
    return update.update.batch.first + pass * feed_.batch();
  }
  // Returns the Submission for tasks of an update. If `workers` is null, all workers may run them.
  Submission submission(const Update& update, const WorkerSet* workers = nullptr) const;
  Step next_step(const Update& update, std::uint64_t pass);
  void start(Update& update);
  void start_guest(Update& update);
  void start_local(Update& update);
  void end_submission();
  // Usually Strategy::end() is called when an update is submitted completely. Where groups on
  // several ranks update as they arrive, collect() calls it, as all ranks collect in the same
  // order.
  bool counts_when_collected() const { return across_ && !strategy_.in_order(); }
  void begin_updates(Update& update);
  void submit_pass(Update& update);
  void submit_local_pass(Update& update, const UpdateOf* update_of);
  void submit_merged(Net& net, const Step& step, const Update& update);
  void submit_updates(const GroupUpdate& update, Net::Phase phase);
  void serve(Update& update);
  ExchangeOrder exchange_order() const {
    return strategy_.in_order() ? ExchangeOrder::submission : ExchangeOrder::arrival;
  }
  void announce(std::span<Tensor* const> when);
  Status tally_next(Update& update);  // adds the metrics of the next pass to update.tally

  ComputeGroups& groups_;
  Net& net_;  // of a remote run: another net, as all are built alike
  Net* const guest_;
  const std::vector<Param*> params_;
  int group_;
  TrainingFeed& feed_;
  EventQueue& events_;
  Strategy& strategy_;
  bool traced_;
  RankSums* sums_;     // null: there is one rank
  const bool across_;  // groups are on several ranks
  const bool local_;
  const bool leaves_;                // the run is local; a guest computes its merged phase
  std::optional<ChainScope> chain_;  // from begin() to the end of complete()
  std::array<Update, kUnderWay> updates_;
  // These count the mini-batches that were begun, submitted completely, read, and collected so far.
  std::uint64_t begun_ = 0, completed_ = 0, read_ = 0, collected_ = 0;
};

}  // namespace omni
