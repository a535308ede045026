#include "apps/omni-run/groups/plan_groups.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "apps/omni-run/groups/group_options.hpp"
#include "apps/omni-run/groups/timed_training.hpp"
#include "apps/omni-run/memory/demand.hpp"
#include "apps/omni-run/progress.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/rank_checks.hpp"
#include "runtime/log.hpp"
#include "scheduling/checkpoint/training_checkpoint.hpp"
#include "scheduling/checkpoint/training_snapshot.hpp"
#include "scheduling/forecast/group_plan.hpp"
#include "scheduling/forecast/iteration_model.hpp"
#include "scheduling/forecast/update_forecast.hpp"
#include "scheduling/pilots/guard.hpp"
#include "scheduling/pilots/of_first_rank.hpp"

namespace omni {
namespace {

// Measures a model of nets with this slice size by training two groups in turn.
Result<IterationModel> model_of(const TrainableNet& spec, const PlanArguments& arguments, int slice,
                                Workers workers, const Dataset& images, Progress& progress) {
  NetArguments net = arguments.net;
  net.slice = slice;
  OMNI_TRY(ComputeGroups two,
           open_groups(spec, net, {.count = 2, .fully_connected = arguments.fully_connected}));
  two.assign(spread_groups(2, workers));
  OMNI_TRY(const auto training,
           TimedTraining::make(std::move(two), spec, images, arguments.machine));
  const std::string what = fmt::format("plan: slices of {} images", slice);
  training->watch([&](int done, int all) { progress.part(what, done, all); });
  return IterationModel::measure(
      training->groups().net(), workers,
      [&](int iterations) {
        return training->seconds_per_iteration(iterations, Asynchrony::reproducible);
      },
      arguments.warm_up, arguments.iterations);
}

Result<double> timed(const TrainableNet& spec, const PlanArguments& arguments, int slice,
                     int groups, Asynchrony asynchrony, Workers workers, const Dataset& images,
                     Progress& progress) {
  NetArguments net = arguments.net;
  net.slice = slice;
  OMNI_TRY(ComputeGroups made,
           open_groups(spec, net, {.count = groups, .fully_connected = arguments.fully_connected}));
  made.assign(spread_groups(groups, workers));
  OMNI_TRY(const auto training,
           TimedTraining::make(std::move(made), spec, images, arguments.machine));
  const std::string what = fmt::format("plan: measures {} groups", groups);
  training->watch([&](int done, int all) { progress.part(what, done, all); });
  OMNI_CHECK(training->seconds(arguments.warm_up, asynchrony));
  return training->seconds_per_iteration(arguments.iterations + 4 * groups, asynchrony);
}

// Sets the row's momentum, and its penalty if that was measured.
void add_updates(GroupPlan::Row& row, const PlanArguments& arguments, double tuned_momentum) {
  row.momentum = momentum_of_groups(arguments.compensation, tuned_momentum, row.groups, true);
  if (row.groups == 1) row.penalty = 1;
  const auto known = std::ranges::find(arguments.counts, row.groups, &UpdateRatio::groups);
  if (known == arguments.counts.end()) return;
  row.penalty = known->ratio;
  row.penalty_error = known->error;
}

// Plans groups for the devices of a machine file. `net` is built for several groups.
GroupPlan plan_simulated(const Machine& machine, Net& net, const PlanArguments& arguments,
                         double tuned_momentum) {
  GroupPlan plan;
  NetCosts costs = net_costs(net);
  costs.send = arguments.send;
  for (const int count : planned_groups(arguments.most_groups)) {
    GroupPlan::Row& row = plan.rows.emplace_back(GroupPlan::Row{.groups = count});
    VirtualClock clock(machine, place_on(machine, count, count > 1 && net.has(Net::Phase::merged)),
                       costs, 1);
    row.predicted =
        forecast_updates(clock, {}, static_cast<std::uint64_t>(net.options().batch)).seconds;
    add_updates(row, arguments, tuned_momentum);
  }
  return plan;
}

// Returns the costs of this machine as one of several nodes. `one` is the row of one group; `net`
// is built for several groups.
NodeCosts node_costs(const GroupPlan::Row& one, Net& net, int cores) {
  NodeCosts node{.net = net_costs(net), .seconds = one.predicted, .cores = std::max(cores, 1)};
  const double all = one.work.groups + one.work.merged + one.work.exchanges;
  node.net.merged_share = all > 0 ? one.work.merged / all : 0;
  return node;
}

// Plans for one group on all ranks, and for several with one or more ranks each. The rows have the
// times that `plan --nodes` shows. Only the calling rank plans.
Result<GroupPlan> plan_over_ranks(const TrainableNet& spec, PlanArguments arguments,
                                  const Machine::Link& link, const Session& session,
                                  const Dataset& images) {
  const std::array nodes{NodeCount{.computing = ranks::size()}};
  GroupPlan plan;
  {
    const ranks::Apart alone;
    arguments.most_groups = 1;
    OMNI_TRY(plan, plan_groups(spec, arguments, session, images));
  }
  plan.node.net.send = arguments.send;
  plan.rows.clear();
  for (const NodeForecast& each : forecast_nodes(plan.node, link, nodes)) {
    const std::string names = ", " + each.strategies + ",";
    if (names.find(each.groups == 1 ? ", sync," : ", async,") == std::string::npos) continue;
    GroupPlan::Row& row = plan.rows.emplace_back(
        GroupPlan::Row{.groups = each.groups, .predicted = each.update.seconds});
    add_updates(row, arguments, static_cast<double>(spec.solver.momentum));
  }
  return plan;
}

constexpr std::uint64_t kLongest = 4;  // several groups train at most this factor longer than one

// Collects the losses of mini-batches in the order in which they end, and ends the training at a
// target loss.
class LossTarget : public Pilot {
 public:
  LossTarget(std::size_t window, double target) : window_(window), target_(target) {}

  std::string_view name() const override { return "loss-target"; }
  Advice judge(const StepReport& at) override {
    const std::size_t windows = losses_.size() / window_;
    losses_.resize(at.iteration, at.loss);  // when the guard goes back, some are not judged
    if (losses_.size() / window_ == windows) return Advice::go_on;
    return first_below(losses_, window_, target_) ? Advice::end : Advice::go_on;
  }
  const std::vector<double>& losses() const { return losses_; }

 private:
  std::vector<double> losses_;
  std::size_t window_;
  double target_;
};

// Trains for at most `iterations` iterations and returns their losses. If the training diverges,
// the losses before are returned.
Result<std::vector<double>> losses_of(ComputeGroups& groups, DataFeed& feed,
                                      const TrainingState& state, const SolverOptions& solver,
                                      std::uint64_t iterations, Compensation compensation,
                                      std::size_t window, double target) {
  LossTarget losses(window, target);
  Guard guard;
  Trainer trainer(groups, feed, nullptr, state,
                  {.iterations = iterations,
                   .solver = solver,
                   .traced = false,
                   .strategy = async(Asynchrony::reproducible, compensation)},
                  {}, {&losses, &guard});
  const Status trained = trainer.run();
  if (!trained && trained.error().kind != ErrorKind::diverged) return trained.error();
  return losses.losses();
}

}  // namespace

Result<GroupPlan> plan_groups(const TrainableNet& spec, const PlanArguments& arguments,
                              const Session& session, const Dataset& images) {
  const Workers workers = workers_of(session);
  const GroupArguments two{.count = 2, .fully_connected = arguments.fully_connected};
  OMNI_TRY(ComputeGroups groups, open_groups(spec, arguments.net, two));
  if (!groups.has_replicated_phase())
    return Error{ErrorKind::usage, spec.name, "all layers are fully connected and merged",
                 "--fc replicated gives every group a copy"};
  if (arguments.node_cores > 0 && workers.gpus > 0)
    return Error{ErrorKind::usage, "--node-cores", "cores are planned for from cores, not GPUs",
                 "--gpus none"};
  if (!has_momentum(spec.solver.rule, spec.solver.adam))
    return spec.solver.adam
               ? Error{ErrorKind::usage, spec.name,
                       "trains with Adam, whose momentum cannot be compensated as the plan assumes",
                       "--set adam=0: an iteration takes hardly less time"}
               : Error{ErrorKind::usage, spec.name,
                       "its solver has no momentum, for which the plan compensates",
                       "type: \"SGD\" in the solver"};
  OMNI_CHECK(require_group_scheduler(session.scheduler()));
  if (session.scheduler() != "omni")
    log::warn("the plan supposes that the scheduler is omni, not {}", session.scheduler());
  const double tuned = static_cast<double>(spec.solver.momentum);
  const bool in_turn =
      arguments.asynchrony == Asynchrony::reproducible || groups.net().options().subdivisions > 1;
  Progress progress(arguments.common.quiet);
  std::map<int, IterationModel> models;  // by slice size, which depends on a group's number of GPUs
  GroupPlan plan;
  for (const int count : planned_groups(arguments.most_groups)) {
    GroupPlan::Row& row = plan.rows.emplace_back(
        GroupPlan::Row{.groups = count, .layout = spread_groups(count, workers)});
    OMNI_TRY(const int slice, slice_of_groups(spec, arguments.net, count));
    auto model = models.find(slice);
    if (model == models.end()) {
      OMNI_TRY(IterationModel made, model_of(spec, arguments, slice, workers, images, progress));
      model = models.emplace(slice, std::move(made)).first;
    }
    row.images_per_slice = slice;
    row.task_overhead = model->second.task_overhead();
    row.work = model->second.work();
    row.predicted = model->second.seconds_per_iteration(row.layout, in_turn || count == 1);
    add_updates(row, arguments, tuned);
  }
  plan.node = node_costs(plan.rows.front(), groups.net(), arguments.net.cores);
  if (arguments.node_cores > 0) {
    PlanArguments of_node = arguments;
    of_node.net.cores = arguments.node_cores;
    OMNI_TRY(const int slice, slice_of_groups(spec, of_node.net, 1));
    OMNI_TRY(IterationModel model, model_of(spec, of_node, slice, workers, images, progress));
    model.set_cores(arguments.node_cores);
    GroupPlan::Row one{.groups = 1, .layout = spread_groups(1, {arguments.node_cores, 0})};
    one.work = model.work();
    one.predicted = model.seconds_per_iteration(one.layout, true);
    plan.node = node_costs(one, groups.net(), arguments.node_cores);
  }
  // The machine may be faster or slower than when the model was measured. So the two groups of the
  // model are measured again in every round, as a reference.
  for (int round = 0; round < arguments.measured_rounds; ++round) {
    std::vector<std::string> told;
    for (GroupPlan::Row& row : plan.rows) {
      OMNI_TRY(const int slice, slice_of_groups(spec, arguments.net, row.groups));
      const auto time = [&](int count, Asynchrony asynchrony) {
        return timed(spec, arguments, slice, count, asynchrony, workers, images, progress);
      };
      OMNI_TRY(const double fitted, time(2, Asynchrony::reproducible));
      OMNI_TRY(const double seconds, time(row.groups, arguments.asynchrony));
      row.measured.push_back(seconds / fitted * models.at(slice).measured());
      told.push_back(fmt::format("{}: {:.3f}", row.groups, 1e3 * row.measured.back()));
    }
    log::info("round {} of {}, ms by groups: {}", round + 1, arguments.measured_rounds,
              fmt::join(told, ", "));
  }
  return plan;
}

Result<ChosenGroups> choose_groups(const TrainArguments& arguments,
                                   const std::optional<Checkpoint>& checkpoint,
                                   const Session& session, const Dataset& images,
                                   const std::string& data,
                                   const std::optional<Machine>& simulated) {
  if (checkpoint) {
    OMNI_TRY(const int saved, saved_groups(*checkpoint));
    return ChosenGroups{saved, "as in " + checkpoint->path.string(), {}};
  }
  NetArguments net = arguments.net;
  net.named.learning_rate = 0.0f;
  net.named.policy = RatePolicy::constant;
  OMNI_TRY(const TrainableNet spec, read_net(net));
  OMNI_TRY(ComputeGroups most,
           open_most_groups(spec, arguments,
                            simulated ? static_cast<int>(simulated->devices.size()) : 0));
  if (most.count() == 1)
    return ChosenGroups{1,
                        ranks::several() ? "merged layers of several ranks take whole mini-batches"
                                         : "one worker, or memory for one",
                        {}};
  if (!most.has_replicated_phase())
    return ChosenGroups{1, "all layers are fully connected and merged", {}};
  PlanArguments wanted;
  wanted.net = net;
  wanted.common = arguments.common;
  wanted.machine = arguments.machine;
  wanted.fully_connected = arguments.groups.fully_connected;
  wanted.asynchrony = arguments.groups.strategy_options.asynchrony.value_or(wanted.asynchrony);
  wanted.compensation =
      arguments.groups.strategy_options.compensation.value_or(wanted.compensation);
  wanted.send = arguments.send;
  wanted.most_groups = most.count();
  wanted.counts =
      update_ratios_of(spec, most.net().options().batch, data, arguments.machine).read();
  GroupPlan plan;
  int best = 0;
  if (ranks::several()) {
    const Machine::Link link = machine_link(ranks::slowest(ranks::measure_links()));
    OMNI_CHECK(on_first_rank([&]() -> Status {
      OMNI_TRY(plan, plan_over_ranks(spec, wanted, link, session, images));
      best = plan.best().groups;
      return {};
    }));
    best = static_cast<int>(of_first_rank(best));
    if (!ranks::first()) return ChosenGroups{best, "as the first rank has planned", {}};
  } else if (simulated) {
    plan =
        plan_simulated(*simulated, most.net(), wanted, static_cast<double>(spec.solver.momentum));
  } else {
    OMNI_TRY(plan, plan_groups(spec, wanted, session, images));
  }
  std::string reason;
  for (const GroupPlan::Row& row : plan.rows)
    reason += fmt::format("{}{:.2f} ms x {:.2f}{} with {}", reason.empty() ? "" : ", ",
                          1e3 * row.predicted, row.total() / row.predicted,
                          row.penalty ? "" : " (not measured)", row.groups);
  if (best == 0) best = plan.best().groups;
  return ChosenGroups{best, "predicted time per iteration x updates needed: " + reason,
                      std::move(plan)};
}

Machine::Link machine_link(const ranks::Link& measured) {
  return {measured.seconds, measured.bytes_per_second, measured.work_per_message,
          measured.work_per_byte};
}

UpdateRatios update_ratios_of(const TrainableNet& spec, int batch, const std::string& data,
                              const MachineArguments& machine) {
  const std::filesystem::path models = machine.session.models.empty()
                                           ? default_model_folder()
                                           : std::filesystem::path(machine.session.models);
  return UpdateRatios(models,
                      fmt::format("{} {} batch {} guarded", layers_hash(spec), data, batch));
}

Result<std::vector<UpdateRatio>> measure_updates(const PlanArguments& arguments,
                                                 const Session& session, const Dataset& images) {
  OMNI_TRY(const TrainableNet spec, read_net(arguments.net));
  const std::vector<int> numbers = planned_groups(arguments.most_groups);
  OMNI_TRY(ComputeGroups groups,
           open_groups(spec, arguments.net,
                       {.count = numbers.back(), .fully_connected = arguments.fully_connected}));
  const Workers workers = workers_of(session);
  DataFeed feed(images, feed_options(groups.net(), spec.augment, arguments.data.seed_of_net(), true,
                                     Trainer::slots(groups)));
  const std::size_t snapshots = TrainingSnapshot::bytes(groups) + Guard().bytes(groups);
  MemoryDemand demand = training_demand(groups, feed, nullptr, groups.net().working_bytes());
  demand.in_main_memory_only = snapshots;
  OMNI_CHECK(MemoryForecast(groups.net(), std::move(demand), arguments.machine).require());
  OMNI_CHECK(groups.allocate());
  OMNI_CHECK(feed.allocate());
  groups.net().initialise(arguments.data.seed_of_net());
  groups.use(1, workers);
  groups.refresh_replicas();

  const std::size_t batch = groups.net().options().batch;
  const std::size_t window = std::clamp<std::size_t>(2048 / batch, 32, 256);
  const std::uint64_t length = std::max<std::uint64_t>(arguments.update_iterations, 2 * window);
  TrainingState state{.seed = arguments.data.seed_of_net()};
  TrainingSnapshot start;
  start.take(groups, state);
  OMNI_TRY(const std::vector<double> one, losses_of(groups, feed, state, spec.solver, length,
                                                    arguments.compensation, window, -INFINITY));
  if (one.size() < length)
    return Error{ErrorKind::diverged, "--measure-updates",
                 fmt::format("one group diverges after {} iterations", one.size()),
                 "lower --learning-rate"};
  const std::span<const double> last = std::span(one).last(window);
  const double target =
      std::accumulate(last.begin(), last.end(), 0.0) / static_cast<double>(window);
  log::info("updates: one group reaches a loss of {:.4g} in {} iterations", target, one.size());
  std::vector<UpdateRatio> counts{{.groups = 1}};
  for (const int count : numbers) {
    if (count == 1) continue;
    groups.use(count, workers);
    start.restore(groups);
    OMNI_TRY(const std::vector<double> losses,
             losses_of(groups, feed, state, spec.solver, kLongest * length, arguments.compensation,
                       window, 0.98 * target));
    counts.push_back(ratio_of_updates(count, one, losses, window));
    log::info("updates: {} groups need {} times as many", count,
              std::isfinite(counts.back().ratio)
                  ? fmt::format("{:.2f} +- {:.2f}", counts.back().ratio, counts.back().error)
                  : fmt::format("more than {}", kLongest));
  }
  return counts;
}

}  // namespace omni
