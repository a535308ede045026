#include "apps/omni-run/plan_groups.hpp"

#include <fmt/format.h>

#include "apps/omni-run/groups.hpp"
#include "apps/omni-run/open_net.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/timed_training.hpp"
#include "runtime/tasks/task_capture.hpp"
#include "runtime/tasks/task_times.hpp"
#include "scheduling/model/iteration_graph.hpp"
#include "scheduling/training_checkpoint.hpp"

namespace omni {
namespace {

// What the model is made of: one iteration's tasks, measured while two groups took turns.
struct Template {
  std::vector<IterationTask> tasks;
  double seconds_per_iteration = 0;
};

Result<Template> measure_template(TimedTraining& training, const PlanArguments& arguments) {
  OMNI_CHECK(training.seconds(arguments.warm_up, Asynchrony::reproducible));
  task_times::start();
  task_capture::start();
  const Result<double> wall = training.seconds(arguments.iterations, Asynchrony::reproducible);
  const std::vector<CapturedTask> captured = task_capture::finish();
  const std::vector<TaskTime> times = task_times::finish();
  if (!wall) return wall.error();
  Template result{.tasks = {}, .seconds_per_iteration = *wall / arguments.iterations};
  OMNI_TRY(result.tasks, iteration_graph(captured, times, training.groups().net()));
  return result;
}

double predict(const Template& measured, Workers workers, const GroupLayout& layout, bool in_turn,
               double overhead) {
  return simulate_groups(measured.tasks, {.workers = workers.all,
                                          .layout = layout,
                                          .in_turn = in_turn,
                                          .iterations = 30 + 10 * static_cast<int>(layout.size()),
                                          .task_overhead = overhead})
      .seconds_per_iteration;
}

// What a task costs its worker besides the kernel: as much as makes the prediction for the measured
// run true.
double fitted_overhead(const Template& measured, Workers workers) {
  double low = 0, high = 200e-6;
  while (high - low > 0.1e-6) {
    const double middle = (low + high) / 2;
    const double predicted = predict(measured, workers, spread_groups(2, workers), true, middle);
    (predicted < measured.seconds_per_iteration ? low : high) = middle;
  }
  return low;
}

Result<double> measure(const NetSpec& spec, const PlanArguments& arguments, const Session& session,
                       int groups, const Dataset& images) {
  const GroupArguments chosen{.count = groups, .fully_connected = arguments.fully_connected};
  OMNI_TRY(ComputeGroups made, open_groups(spec, arguments.net, chosen));
  made.assign(spread_groups(groups, workers_of(session)));
  OMNI_TRY(const auto training, TimedTraining::make(std::move(made), images, arguments.machine));
  const int iterations = arguments.iterations + 4 * groups;
  OMNI_CHECK(training->seconds(arguments.warm_up, arguments.asynchrony));
  OMNI_TRY(const double wall, training->seconds(iterations, arguments.asynchrony));
  return wall / iterations;
}

}  // namespace

Result<GroupPlan> plan_groups(const NetSpec& spec, const PlanArguments& arguments,
                              const Session& session, const Dataset& images) {
  const Workers workers = workers_of(session);
  const GroupArguments two{.count = 2, .fully_connected = arguments.fully_connected};
  OMNI_TRY(ComputeGroups groups, open_groups(spec, arguments.net, two));
  if (!groups.has_replicated_phase())
    return Error{ErrorKind::usage, spec.name, "all layers are fully connected and merged",
                 "--fc replicated gives every group a copy"};
  if (groups.net().options().solver.adam)
    return Error{ErrorKind::usage, spec.name,
                 "trains with Adam, whose momentum cannot be compensated as the plan assumes",
                 "--set adam=0: an iteration takes hardly less time"};
  OMNI_CHECK(require_group_scheduler(session));
  groups.assign(spread_groups(2, workers));
  const double tuned = static_cast<double>(groups.net().options().solver.momentum);
  const bool in_turn =
      arguments.asynchrony == Asynchrony::reproducible || groups.net().options().subdivisions > 1;
  Template measured;
  {
    OMNI_TRY(const auto training,
             TimedTraining::make(std::move(groups), images, arguments.machine));
    OMNI_TRY(measured, measure_template(*training, arguments));
  }
  GroupPlan plan{.rows = {}, .task_overhead = fitted_overhead(measured, workers)};
  for (int count = 1; count <= arguments.most_groups; count *= 2) {
    GroupPlan::Row& row = plan.rows.emplace_back(
        GroupPlan::Row{.groups = count, .layout = spread_groups(count, workers)});
    row.predicted =
        predict(measured, workers, row.layout, in_turn || count == 1, plan.task_overhead);
    row.momentum = MomentumControl(arguments.compensation, tuned, count, true).next(0);
    row.penalty = statistical_penalty(row.momentum);
    if (arguments.measure) {
      OMNI_TRY(row.measured, measure(spec, arguments, session, count, images));
    }
  }
  return plan;
}

Result<ChosenGroups> choose_groups(const TrainArguments& arguments,
                                   const std::optional<Checkpoint>& checkpoint,
                                   const Session& session, const Dataset& images) {
  if (checkpoint) {
    OMNI_TRY(const int saved, saved_groups(*checkpoint));
    return ChosenGroups{saved, "as in " + checkpoint->path.string(), {}};
  }
  NetArguments net = arguments.net;
  net.settings.insert(net.settings.end(), {"learning_rate=0", "policy=constant"});
  OMNI_TRY(const NetSpec spec, read_net(net));
  OMNI_TRY(const ComputeGroups most, open_most_groups(spec, arguments));
  if (most.count() == 1) return ChosenGroups{1, "one worker, or memory for one", {}};
  if (!most.has_replicated_phase())
    return ChosenGroups{1, "all layers are fully connected and merged", {}};
  PlanArguments wanted;
  wanted.net = net;
  wanted.machine = arguments.machine;
  wanted.fully_connected = arguments.groups.fully_connected;
  wanted.asynchrony = arguments.groups.asynchrony.value_or(wanted.asynchrony);
  wanted.compensation = arguments.groups.compensation.value_or(wanted.compensation);
  wanted.most_groups = most.count();
  OMNI_TRY(GroupPlan plan, plan_groups(spec, wanted, session, images));
  std::string reason;
  for (const GroupPlan::Row& row : plan.rows)
    reason += fmt::format("{}{:.2f} ms x {:.2f} with {}", reason.empty() ? "" : ", ",
                          1e3 * row.predicted, row.penalty, row.groups);
  return ChosenGroups{plan.best().groups,
                      "predicted time per iteration x updates needed: " + reason, std::move(plan)};
}

}  // namespace omni
