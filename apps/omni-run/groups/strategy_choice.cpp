// This file reads --strategy and its options.
#include "apps/omni-run/groups/group_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/communicator/ranks.hpp"
#include "runtime/log.hpp"

namespace omni {
namespace {

Error refusal(std::string_view option, std::string what, std::string todo) {
  return {ErrorKind::usage, std::string(option), std::move(what), std::move(todo)};
}

// Refuses options that belong to other strategies.
Status check_options(const StrategyType& type, const GroupArguments& groups) {
  std::vector<std::string_view> given = given_for_groups(groups);
  for (const auto& [name, value] : groups.strategy_options.own.by_name)
    if (value.given()) given.push_back(name);
  for (const std::string_view option : given) {
    if (uses(type, option)) continue;
    std::string users;
    for (const StrategyType& other : strategy_types())
      if (uses(other, option)) users += fmt::format("{}{}", users.empty() ? "" : ", ", other.name);
    return refusal(option, fmt::format("--strategy {} does not use it", type.name),
                   "it belongs to " + users);
  }
  return {};
}

Status check_combination(const StrategyType& type, const TrainArguments& arguments) {
  const GroupArguments& groups = arguments.groups;
  const std::string name = fmt::format("--strategy {}", type.name);
  const std::string most = fmt::format("has {} group at most", type.most_groups);
  return first_of({{groups.count.value_or(1) > type.most_groups, name, most.c_str(),
                    "leave out --groups, or name another strategy"},
                   {type.most_groups == 1 && (groups.automatic || groups.planned), name,
                    "its number of groups is 1", "leave it out"},
                   {groups.automatic && !uses(type, "--auto"), name,
                    "--auto searches for asynchronous groups only", "leave one of them out"},
                   {groups.planned && !type.grows && !uses(type, "--groups auto"), name,
                    "--groups auto is for async and sma only", "give a number"}});
}

}  // namespace

std::string_view StrategyChoice::state_name() const {
  return type->saved_as.empty() ? type->name : type->saved_as;
}

Result<StrategyChoice> choose_strategy(TrainArguments& arguments, int workers) {
  GroupArguments& groups = arguments.groups;
  if (!groups.layout.empty() && !groups.count && !groups.planned && !groups.automatic) {
    const auto named = find_strategy(groups.strategy);
    const int ranks = named && (*named)->most_groups == 1 ? 1 : ranks::size();
    OMNI_TRY(const GroupPlaces places, parse_group_layout(groups.layout, kAnyWorkers, ranks));
    if (places.workers.size() > static_cast<std::size_t>(kMostGroups))
      return refusal("--group-layout", fmt::format("names {} groups", places.workers.size()),
                     fmt::format("{} are the most", kMostGroups));
    groups.count = static_cast<int>(places.workers.size());
  }
  const bool several =
      groups.automatic || groups.planned || groups.count.value_or(1) > 1 || !groups.layout.empty();
  StrategyChoice choice;
  const bool chosen = !groups.strategy.empty();
  choice.type = &usual_strategy(several);
  if (chosen) {
    OMNI_TRY(choice.type, find_strategy(groups.strategy));
  }
  // Without --strategy, options of several groups are allowed; with one group a warning follows.
  OMNI_CHECK(check_options(chosen ? *choice.type : usual_strategy(true), groups));
  OMNI_CHECK(check_combination(*choice.type, arguments));
  if (choice.type->check != nullptr)
    OMNI_CHECK(choice.type->check(groups.strategy_options, arguments.arrivals.simulated));
  if (choice.type->grows && groups.planned) {
    OMNI_CHECK(check_planned(arguments));
    if (arguments.arrivals.simulated)
      return refusal("--groups auto", "under sma it measures this machine, not the simulated one",
                     "give a number, or leave out --arrivals virtual");
    constexpr int kMostPerDevice = 4;
    choice.grows = true;
    groups.planned = false;
    groups.count = std::clamp(kMostPerDevice * workers, choice.type->least_groups, kMostGroups);
  }
  if (chosen && choice.type->usual_groups == 0 && !groups.count)
    groups.count = std::clamp(workers, choice.type->least_groups, kMostGroups);
  if (groups.count.value_or(1) < choice.type->least_groups) {
    log::info("--strategy {} with one group is plain training: sync", choice.type->name);
    choice.type = &usual_strategy(false);
  }
  choice.options = groups.strategy_options;
  choice.options.in_order = arguments.machine.session.deterministic ||
                            arguments.arrivals.simulated ||
                            groups.strategy_options.asynchrony == Asynchrony::reproducible;
  if (arguments.arrivals.simulated) choice.options.asynchrony = Asynchrony::reproducible;
  return choice;
}

Result<GroupsPlan> shape_groups(StrategyChoice& choice, int batch,
                                const std::vector<bool>& on_gpu) {
  GroupsPlan shape{.models = choice.type->models};
  if (choice.type->sizes == nullptr) return shape;
  OMNI_TRY(GroupSizes sizes, choice.type->sizes(choice.options, batch, on_gpu));
  choice.options.group_batches = std::move(sizes.batches);
  shape.images_per_pass = std::move(sizes.images_per_pass);
  return shape;
}

}  // namespace omni
