// A training as its plan says. Several may live in one process, one after another or side by side:
// they share StarPU's session, its performance models, the stop request and the trace, which belong
// to the process.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/tasks/session.hpp"
#include "scheduling/groups/rank_sums.hpp"
#include "scheduling/training/training_plan.hpp"

namespace omni {

Workers workers_of(const Session& session);
Result<ComputeGroups> make_groups(const NetDescription& net, const BuildOptions& build,
                                  const GroupsPlan& plan);

class Training {
 public:
  // Ready to run, with parameters from the seed.
  static Result<std::unique_ptr<Training>> make(TrainingPlan plan, const Session& session);

  // In steps, for callers who look at the plan before memory is taken: the groups are those of the
  // plan, with workers assigned.
  Training(TrainingPlan plan, ComputeGroups groups);
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;
  Status allocate();

  // From there to the end, and the evaluation of the result. What they return is as Trainer's.
  Status run(TrainingState from);
  Status run() { return run({.seed = plan_.seed}); }
  Status evaluate() { return trainer_->evaluate_now(); }

  TrainingPlan& plan() { return plan_; }
  ComputeGroups& groups() { return groups_; }
  const ComputeGroups& groups() const { return groups_; }
  RankSums* sums() { return sums_ ? &*sums_ : nullptr; }
  const std::vector<std::unique_ptr<DataFeed>>& feeds() const { return feeds_; }
  DataFeed* test() { return test_ ? &*test_ : nullptr; }  // null: there is no test set
  const std::vector<std::unique_ptr<Pilot>>& pilots() const { return pilots_; }
  // Once it runs.
  const Trainer& trainer() const { return *trainer_; }

 private:
  TrainingPlan plan_;
  ComputeGroups groups_;
  std::optional<RankSums> sums_;                  // of several ranks
  std::vector<std::unique_ptr<DataFeed>> feeds_;  // one for each number of images per pass
  std::vector<DataFeed*> feed_of_group_;          // none: all groups have the first
  std::optional<DataFeed> test_;
  std::vector<std::unique_ptr<Pilot>> pilots_;
  std::optional<Trainer> trainer_;
};

}  // namespace omni
