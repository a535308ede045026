// A Training has the groups, feeds, pilots and trainer that a TrainingPlan describes. A process may
// have several trainings, one after another or at the same time. They share StarPU's session, its
// performance models, the stop request and the trace.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/tasks/session.hpp"
#include "scheduling/groups/rank_sums.hpp"
#include "scheduling/training/training_plan.hpp"

namespace omni {

Workers workers_of(const Session& session);
// Refuses SolverOptions::clip_gradients unless there is one group and one rank, as it needs the
// whole gradient before the first step. `automatic` means that the number of groups may grow.
Status check_clipping(const TrainableNet& net, int groups, bool automatic);
Result<ComputeGroups> make_groups(const NetDescription& net, const BuildOptions& build,
                                  const GroupsPlan& plan);

class Training {
 public:
  // Makes a training that is ready to run. Its parameters are initialised from the seed.
  static Result<std::unique_ptr<Training>> make(TrainingPlan plan, const Session& session);

  // The constructor and allocate() are for callers who inspect the groups before memory is
  // allocated. `groups` must be those of the plan, with workers assigned.
  Training(TrainingPlan plan, ComputeGroups groups);
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;
  Status allocate();
  // Other trainings with the same TrainingPlan::stream wait from now on for this one, which begins
  // at `first_sample`. Without this call the training joins the stream when it begins.
  Status join_stream(std::uint64_t first_sample);

  // From now on `count` groups train, from the master copies. No task may be under way. On several
  // ranks, which call this function together, groups, sums and feeds are made anew. Owners are then
  // chosen anew, and everything is as if the training had begun in these groups. References to
  // groups() and to feeds stay valid. After an error that only this rank has, the job ends.
  Status use_groups(int count);
  // Returns true if pilots may call use_groups().
  bool changes_groups() const {
    return plan_.pilots.automatic || plan_.pilots.grows || plan_.pilots.cold_start > 0;
  }

  // Trains from the state `from` to the end; evaluate() then evaluates the result. Both return what
  // Trainer's functions return.
  Status run(TrainingState from);
  Status run() { return run({.seed = plan_.seed}); }
  Status evaluate() { return trainer_->evaluate_now(); }
  // Prepares mini-batches as for run(), from the first sample to `end`, but no net reads them.
  // Calls `on_ready` with the number of samples that are ready so far. Call it in place of run().
  Status prepare_samples(std::uint64_t end, const std::function<void(std::uint64_t)>& on_ready);

  ComputeGroups& groups() { return groups_; }
  const ComputeGroups& groups() const { return groups_; }
  RankSums* sums() { return sums_ ? &*sums_ : nullptr; }
  const std::deque<std::optional<DataFeed>>& feeds() const { return feeds_; }  // all have values
  DataFeed* test() { return test_ ? &*test_ : nullptr; }  // null: there is no test set
  const std::vector<std::unique_ptr<Pilot>>& pilots() const { return pilots_; }
  // trainer() may be called only after run().
  const Trainer& trainer() const { return *trainer_; }

 private:
  void connect();  // makes sums and feeds for the groups
  Result<ComputeGroups> other_groups(int count) const;
  Status make_anew(int count);

  TrainingPlan plan_;
  ComputeGroups groups_;
  std::optional<RankSums> sums_;               // none: there is one rank
  std::deque<std::optional<DataFeed>> feeds_;  // one for each number of images per pass
  std::vector<DataFeed*> feed_of_group_;       // empty: all groups use the first feed
  std::optional<DataFeed> test_;
  std::vector<std::unique_ptr<Pilot>> pilots_;
  std::optional<Trainer> trainer_;
};

}  // namespace omni
