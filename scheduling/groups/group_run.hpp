// The iterations of one compute group: submits their tasks and collects what came out of them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/tasks/calls/task_chain.hpp"
#include "runtime/tasks/submission.hpp"
#include "scheduling/evaluator.hpp"
#include "scheduling/groups/compute_groups.hpp"
#include "scheduling/groups/event_queue.hpp"
#include "scheduling/groups/momentum.hpp"
#include "scheduling/groups/training_feed.hpp"

namespace omni {

// What an update does besides adding up the gradients.
struct UpdateRule {
  float learning_rate = 0;
  Momentum momentum;
  ExchangeOrder order = ExchangeOrder::submission;
};

struct FinishedIteration {
  std::uint64_t number = 0;
  UpdateRule rule;
  Tally tally;
  std::int64_t staleness = 0, fc_staleness = 0;
};

class GroupRun {
 public:
  // The group computes one iteration, and the beginning of the next may be submitted behind it.
  static constexpr int kUnderWay = 2;
  // Mini-batches of one iteration whose images are held at once.
  static constexpr int kHeld = 2;

  // `traced`: a trace tells its tasks by iteration; else they belong to none.
  GroupRun(ComputeGroups& groups, int group, TrainingFeed& feed, EventQueue& events, bool traced);
  GroupRun(const GroupRun&) = delete;
  GroupRun& operator=(const GroupRun&) = delete;

  // Submits a new iteration up to the merged phase; its arrival there is an event, if wanted.
  void begin(std::uint64_t number, bool announce);
  // Submits the rest of the oldest one that is not complete. The update's end is an event.
  std::uint64_t next_to_complete() const { return iterations_[completed_ % kUnderWay].number; }
  Status complete(const UpdateRule& rule);
  // What came out of the oldest one whose update is done.
  Result<FinishedIteration> collect();

  int group() const { return group_; }
  bool may_begin() const { return completed_ == begun_ && begun_ - collected_ < kUnderWay; }

 private:
  struct Iteration {
    std::uint64_t number = 0;  // counts up over all groups
    Step first;                // its first mini-batch
    UpdateRule rule;
    UpdateReport report;
    std::uint64_t tallied = 0;  // mini-batches whose metrics were read
    Tally tally;
  };
  Iteration& of(std::uint64_t count) { return iterations_[count % kUnderWay]; }
  std::uint64_t batch(const Iteration& iteration, std::uint64_t subdivision) const {
    return iteration.number * subdivisions_ + subdivision;
  }
  Submission submission(const Iteration& iteration, const WorkerSet* workers) const;
  Step next_step(const Iteration& iteration, std::uint64_t subdivision);
  void start_updates(Iteration& iteration);
  ExchangeArgs exchange_args(Iteration& iteration, std::size_t number);  // of params_[number]
  void submit_updates(Iteration& iteration, Net::Phase phase);
  Status tally_next(Iteration& iteration);  // reads the metrics of its next mini-batch

  Net& net_;
  const std::vector<Param*> params_;
  const Param* watched_ = nullptr;  // see ComputeGroups::watched()
  std::span<Ticket> tickets_;
  const WorkerSet& workers_;
  int group_;
  TrainingFeed& feed_;
  EventQueue& events_;
  bool traced_;
  std::uint64_t subdivisions_;
  bool alone_;                       // with one mini-batch per iteration, which can be one chain
  std::optional<ChainScope> chain_;  // from begin() to the end of complete()
  std::array<Iteration, kUnderWay> iterations_;
  std::uint64_t begun_ = 0, completed_ = 0, collected_ = 0;
};

}  // namespace omni
