// These functions read --groups, --strategy and related options. They make the compute groups and
// the options of the trainer and of the groups' nets.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "apps/omni-run/training_arguments.hpp"
#include "runtime/tasks/session.hpp"
#include "scheduling/training/training.hpp"

namespace omni {

// A Refusal is a usage error, which counts if it `applies`.
struct Refusal {
  bool applies;
  std::string option;
  const char *why, *todo;
};
Status first_of(std::initializer_list<Refusal> refusals);

// Refuses options that cannot be combined with --auto.
Status check_automatic(const TrainArguments& arguments, const SolverOptions& solver);

// Refuses options that cannot be combined with --groups auto.
Status check_planned(const TrainArguments& arguments);

// With a solver that has no momentum, such as Adam, refuses groups and strategies that need one.
Status check_adam(const GroupArguments& groups, const StrategyType& strategy,
                  const SolverOptions& solver);

// Returns the workers of each group and, with several ranks, the ranks of each group. The option
// --group-layout may name the workers below `most`.
Result<GroupPlaces> place_groups(const GroupArguments& arguments, GroupModels models,
                                 Workers workers, int most);

BuildOptions build_options(const TrainableNet& spec, const NetArguments& net);
Result<ComputeGroups> open_groups(const TrainableNet& spec, const NetArguments& net,
                                  const GroupArguments& arguments, const GroupsPlan& shape = {});
// Returns the images per task in the nets of this number of groups.
Result<int> slice_of_groups(const TrainableNet& spec, const NetArguments& net, int groups);
// Opens as many groups as --groups says. Otherwise it opens one per core of all ranks, or fewer, so
// that they take at most half of the memory. `devices` of a simulated machine, if not 0, replace
// the cores. If ranks cannot have several groups of the net, there is one.
Result<ComputeGroups> open_most_groups(const TrainableNet& spec, const TrainArguments& arguments,
                                       int devices = 0);

// Refuses a scheduler that cannot bind tasks to workers.
Status require_group_scheduler(const std::string& scheduler);

// Returns the given options that a strategy may use and does not declare, like "--async".
std::vector<std::string_view> given_for_groups(const GroupArguments& arguments);

// Returns true if the pilot `guard` steers the training of several groups.
bool is_guarded(const StrategyType& strategy, const GroupArguments& arguments);

// Warns of options that cannot be satisfied or have no effect.
void warn_about_groups(const ComputeGroups& groups, const GroupArguments& arguments,
                       const StrategyType& strategy, const SolverOptions& solver,
                       std::uint64_t iterations);

// Assigns workers to every group and prints them.
Status assign_workers(ComputeGroups& groups, const GroupArguments& arguments, GroupModels models,
                      const Session& session);

Result<Asynchrony> chosen_asynchrony(const GroupArguments& arguments, bool deterministic);

struct StrategyChoice {
  const StrategyType* type = nullptr;
  StrategyOptions options;
  bool grows = false;  // the number of groups grows while training, up to GroupArguments::count
  std::string_view state_name() const;  // see StrategyState::name
  MakeStrategy make() const { return make_strategy(*type, options); }
};

// Chooses the strategy and refuses options that cannot be combined. Sets the number of groups if
// the strategy needs several and the user gave none. `workers` is the number of workers that
// compute.
Result<StrategyChoice> choose_strategy(TrainArguments& arguments, int workers);

// Returns the plan of the groups' nets. If mini-batches differ, the strategy decides their sizes;
// `options.group_batches` then has one entry per group.
Result<GroupsPlan> shape_groups(StrategyChoice& choice, int batch, const std::vector<bool>& on_gpu);

}  // namespace omni
