#include "apps/omni-run/groups/group_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "apps/omni-run/setup.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/log.hpp"
#include "runtime/memory/memory_limits.hpp"
#include "scheduling/groups/momentum.hpp"
#include "scheduling/pilots/guard.hpp"

namespace omni {

Status first_of(std::initializer_list<Refusal> refusals) {
  const auto first = std::ranges::find(refusals, true, &Refusal::applies);
  if (first == refusals.end()) return {};
  return Error{ErrorKind::usage, first->option, first->why, first->todo};
}

Status check_automatic(const TrainArguments& arguments, const SolverOptions& solver) {
  const GroupArguments& groups = arguments.groups;
  if (!groups.automatic) return {};
  return first_of(
      {{arguments.machine.session.deterministic && !arguments.arrivals.simulated, "--auto",
        "it measures times, which are never the same twice",
        "leave it out, or leave out --deterministic"},
       {solver.learning_rate == 0, "--auto",
        "the learning rate is 0, where nothing can be searched", "--learning-rate 0.01, say"}});
}

Status check_planned(const TrainArguments& arguments) {
  if (!arguments.groups.planned) return {};
  return first_of(
      {{arguments.groups.automatic, "--groups auto", "--auto searches the number of groups, too",
        "leave one of them out, or bound the number with --groups 4, say"},
       {arguments.machine.session.deterministic && !arguments.arrivals.simulated, "--groups auto",
        "it measures times, which are never the same twice",
        "give a number, or leave out --deterministic"}});
}

Status check_adam(const GroupArguments& groups, const StrategyType& strategy,
                  const SolverOptions& solver) {
  if (has_momentum(solver.rule, solver.adam) || strategy.models == GroupModels::own) return {};
  if (!solver.adam)
    return first_of(
        {{strategy.models == GroupModels::replicated, fmt::format("--strategy {}", strategy.name),
          "it adds plain steps to one model, and those of the solver are none",
          "type: \"SGD\" in the solver, or another strategy"},
         {groups.automatic || groups.planned || groups.count.value_or(1) > 1,
          groups.automatic ? "--auto" : "--groups",
          "the solver has no momentum, for which groups and --auto compensate",
          "type: \"SGD\" in the solver, or one group"}});
  return first_of(
      {{strategy.models == GroupModels::replicated, fmt::format("--strategy {}", strategy.name),
        "it adds plain steps to one model, and Adam's are none",
        "--set adam=0, or another strategy"},
       {groups.automatic, "--auto", "it searches the momentum, which Adam does not have",
        "leave it out, or give --set adam=0"},
       {groups.planned, "--groups auto",
        "it needs a momentum that can be compensated, which Adam does not have",
        "give a number, or --set adam=0"},
       {groups.count.value_or(1) > 1 && uses(strategy, "--momentum-compensation") &&
            groups.strategy_options.compensation != Compensation::off,
        "--groups", "Adam has no momentum that could be compensated for the groups' asynchrony",
        "--momentum-compensation off lets it be, --set adam=0 trains with momentum"}});
}

Result<GroupPlaces> place_groups(const GroupArguments& arguments, GroupModels models,
                                 Workers workers, int most) {
  const bool laid_out = !arguments.layout.empty();
  const int count = arguments.count.value_or(1);
  // A single group with the shared model is on all ranks, without a layout.
  const int ranks = count > 1 || models != GroupModels::one ? ranks::size() : 1;
  if (!laid_out)
    return ranks > 1 ? spread_over_ranks(count, workers, ranks, arguments.weights)
                     : GroupPlaces{spread_groups(count, workers)};
  if (ranks < ranks::size())
    return Error{ErrorKind::usage, "--group-layout", "one group is on all ranks", "leave it out"};
  OMNI_TRY(GroupPlaces places, parse_group_layout(arguments.layout, most, ranks));
  const std::size_t named = places.workers.size();
  if (named != static_cast<std::size_t>(count))
    return Error{ErrorKind::usage, "--group-layout",
                 fmt::format("names {} group{}, --groups {}", named, named == 1 ? "" : "s", count),
                 "name as many, with quotes around them: to a shell, ; ends a command"};
  return places;
}

BuildOptions build_options(const TrainableNet& spec, const NetArguments& net) {
  return {.training = true,
          .adam = keeps_two_states(spec.solver.rule, spec.solver.adam),
          .rule = spec.solver.rule,
          .slice = net.slice,
          .gpus = net.gpus,
          .cores = net.cores,
          .fixed_sums = net.fixed_sums,
          .values = net.values,
          .update_in_backward = true,
          .clips = spec.solver.clip_gradients > 0};
}

namespace {

void warn_about_momentum(const ComputeGroups& groups, const GroupArguments& arguments,
                         double tuned) {
  if (arguments.strategy_options.compensation == Compensation::off || !groups.watched()) return;
  const Momentum momentum = compensate(tuned, implicit_of_groups(groups.count()));
  if (!is_kept(momentum))
    log::warn(
        "the asynchrony of {} groups adds more momentum than updates can give up: in total "
        "{:.3g} instead of {:.3g} (use fewer groups)",
        groups.count(), momentum.total(), tuned);
}

}  // namespace

Result<ComputeGroups> open_groups(const TrainableNet& spec, const NetArguments& net,
                                  const GroupArguments& arguments, const GroupsPlan& shape) {
  OMNI_TRY(GroupPlaces places, place_groups(arguments, shape.models, 1, kAnyWorkers));
  GroupsPlan plan = shape;
  plan.count = arguments.count.value_or(1);
  plan.fully_connected = arguments.fully_connected;
  plan.ranks = std::move(places.ranks);
  plan.weights = arguments.weights;
  plan.cores_by_rank = net.cores_by_rank;
  // A process that also uses a single group needs nets for all workers. Several ranks make other
  // nets for it.
  const bool also_one = arguments.automatic || arguments.cold_start > 0;
  plan.sharing = also_one && !ranks::several() ? 1 : 0;
  return make_groups(spec, build_options(spec, net), plan);
}

Result<int> slice_of_groups(const TrainableNet& spec, const NetArguments& net, int groups) {
  OMNI_TRY(const ComputeGroups one,
           make_groups(spec, build_options(spec, net), {.sharing = groups}));
  return one.net().slices().sizes.front();
}

Result<ComputeGroups> open_most_groups(const TrainableNet& spec, const TrainArguments& arguments,
                                       int devices) {
  GroupArguments most = arguments.groups;
  if (most.count) return open_groups(spec, arguments.net, most);
  const int cores =
      static_cast<int>(ranks::least(computing_cores(arguments.machine.session))) * ranks::size();
  most.count = std::clamp(devices > 0 ? devices : cores, 1, kMostGroups);
  OMNI_TRY(ComputeGroups groups, open_groups(spec, arguments.net, most));
  const auto open = [&](int count) -> Status {
    most.count = count;
    OMNI_TRY(groups, open_groups(spec, arguments.net, most));
    return {};
  };
  while (groups.count() > 1 && ranks::any(groups.tensor_bytes() > physical_memory() / 2))
    OMNI_CHECK(open(groups.count() / 2));
  const Net& net = groups.net();
  if (ranks::several() && groups.count() > 1 && net.has(Net::Phase::merged) &&
      (!net.has(Net::Phase::replicated) || net.options().subdivisions > 1))
    OMNI_CHECK(open(1));
  return groups;
}

Status require_group_scheduler(const std::string& scheduler) {
  // These schedulers hang when tasks are bound to workers (observed with StarPU 1.4.10).
  if (scheduler.starts_with("modular-") || scheduler == "heteroprio")
    return Error{ErrorKind::usage, "--sched " + scheduler, "cannot keep tasks to a group's workers",
                 "omni, dmdas, prio, eager, random and lws can, for example"};
  return {};
}

Status assign_workers(ComputeGroups& groups, const GroupArguments& arguments, GroupModels models,
                      const Session& session) {
  if (groups.count() > 1 || !arguments.layout.empty())
    OMNI_CHECK(require_group_scheduler(session.scheduler()));
  if (arguments.automatic) return {};  // the pilot `tuned` assigns workers
  const Workers workers = workers_of(session);
  OMNI_TRY(const GroupPlaces places, place_groups(arguments, models, workers, workers.all));
  // StarPU numbers GPU workers first. If the layout gives a group only cores, cores compute too.
  for (const int group : groups.here())
    if (!arguments.layout.empty() && std::ranges::min(places.workers[group]) >= workers.gpus)
      let_cores_compute();
  if (groups.count() == 1 && arguments.layout.empty()) return {};
  groups.assign(places.workers);
  log::info("{} compute group{} on workers {}", groups.count(), groups.count() == 1 ? "" : "s",
            describe(places));
  return {};
}

std::vector<std::string_view> given_for_groups(const GroupArguments& arguments) {
  std::vector<std::string_view> given;
  if (arguments.strategy_options.asynchrony) given.push_back("--async");
  if (arguments.strategy_options.compensation) given.push_back("--momentum-compensation");
  if (arguments.cold_start > 0) given.push_back("--cold-start");
  if (arguments.guard) given.push_back("--guard");
  if (arguments.fully_connected != FullyConnected::merged) given.push_back("--fc");
  return given;
}

bool is_guarded(const StrategyType& strategy, const GroupArguments& arguments) {
  return uses(strategy, "--guard") && arguments.guard.value_or(true);
}

void warn_about_groups(const ComputeGroups& groups, const GroupArguments& arguments,
                       const StrategyType& strategy, const SolverOptions& solver,
                       std::uint64_t iterations) {
  if (arguments.automatic) return;
  if (groups.count() == 1) {
    if (arguments.planned) return;  // the options were meant for several groups
    const std::vector<std::string_view> useless = given_for_groups(arguments);
    if (!useless.empty())
      log::warn("{}: no effect with one compute group (--groups 2, say)", fmt::join(useless, ", "));
    return;
  }
  if (uses(strategy, "--momentum-compensation"))
    warn_about_momentum(groups, arguments, static_cast<double>(solver.momentum));
  if (is_guarded(strategy, arguments))
    log::info(
        "guard: starts with {:.2g} of the learning rate, raises it up to the given one, lowers it "
        "when the loss rises (--guard off: always the given one)",
        Guard::first_share(groups.count()));
  if (uses(strategy, "--fc") && !groups.has_replicated_phase())
    log::warn(
        "all layers are fully connected and merged: groups take turns and gain nothing "
        "(--fc replicated gives each group a copy)");
  if (strategy.models == GroupModels::one &&
      arguments.strategy_options.asynchrony == Asynchrony::free &&
      groups.net().options().subdivisions > 1)
    log::warn("--async free: with subdivisions groups still take turns");
  if (arguments.cold_start > 0 && iterations > 0 && arguments.cold_start >= iterations)
    log::warn("--cold-start {}: all {} iterations are in one group", arguments.cold_start,
              iterations);
  else if (arguments.cold_start > 0)
    log::info("cold start: the first {} iterations are in one group", arguments.cold_start);
}

Result<Asynchrony> chosen_asynchrony(const GroupArguments& arguments, bool deterministic) {
  if (!deterministic) return arguments.strategy_options.asynchrony.value_or(Asynchrony::free);
  if (arguments.strategy_options.asynchrony == Asynchrony::free && arguments.count.value_or(1) > 1)
    return Error{ErrorKind::usage, "--async free", "the order of arrival is never the same twice",
                 "leave it out, or leave out --deterministic"};
  return Asynchrony::reproducible;
}

}  // namespace omni
