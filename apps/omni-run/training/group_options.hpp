// From --groups, --strategy and their companions to the compute groups of a training, and to what
// the trainer and the groups' nets need.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "apps/omni-run/training_arguments.hpp"
#include "runtime/tasks/session.hpp"
#include "scheduling/training/training.hpp"

namespace omni {

// A usage error, where it `applies`.
struct Refusal {
  bool applies;
  std::string option;
  const char *why, *todo;
};
Status first_of(std::initializer_list<Refusal> refusals);

// Refuses what --auto cannot be combined with.
Status check_automatic(const TrainArguments& arguments, const SolverOptions& solver);

// Refuses what --groups auto cannot be combined with.
Status check_planned(const TrainArguments& arguments);

// Refuses what counts on a momentum, with Adam.
Status check_adam(const GroupArguments& groups, const StrategyType& strategy,
                  const SolverOptions& solver);

// Each group's workers, and its rank where groups are on several; at most `most` on each.
Result<GroupPlaces> place_groups(const GroupArguments& arguments, GroupModels models,
                                 Workers workers, int most);

Result<ComputeGroups> open_groups(const TrainableNet& spec, const NetArguments& net,
                                  const GroupArguments& arguments, const GroupsPlan& shape = {});
// Images per task of such groups' nets.
Result<int> slice_of_groups(const TrainableNet& spec, const NetArguments& net, int groups);
// As many as --groups says, else one per worker, in at most half of the memory.
// devices: of a simulated machine; 0: the cores of this one.
Result<ComputeGroups> open_most_groups(const TrainableNet& spec, const TrainArguments& arguments,
                                       int devices = 0);

// Refuses a scheduler that cannot keep tasks to workers.
Status require_group_scheduler(const std::string& scheduler);

// What was asked for and cannot be, or has no effect.
void warn_about_groups(const ComputeGroups& groups, const GroupArguments& arguments,
                       const SolverOptions& solver, std::uint64_t iterations);

// Gives every group its workers and prints which.
Status assign_workers(ComputeGroups& groups, const GroupArguments& arguments, GroupModels models,
                      const Session& session);

Result<Asynchrony> chosen_asynchrony(const GroupArguments& arguments, bool deterministic);

struct StrategyChoice {
  const StrategyType* type = nullptr;
  StrategyOptions options;
  bool grows = false;  // the number of groups, while it trains; GroupArguments has the most
  std::string_view state_name() const;  // of StrategyState
  MakeStrategy make() const { return type->make(options); }
};

// Refuses what does not go together; sets the number of groups where the strategy needs several and
// none was given. `workers`: that compute.
Result<StrategyChoice> choose_strategy(TrainArguments& arguments, int workers);

// What the groups' nets look like. Mini-batches of several sizes: as --group-batches says, else by
// the groups' devices; `options.group_batches` then has one for each.
Result<GroupsPlan> shape_groups(StrategyChoice& choice, const GroupArguments& groups, int batch,
                                const std::vector<bool>& on_gpu);

}  // namespace omni
