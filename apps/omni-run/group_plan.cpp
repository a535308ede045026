#include "apps/omni-run/group_plan.hpp"

#include <algorithm>
#include <cmath>

#include "apps/omni-run/groups.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/timed_training.hpp"
#include "runtime/tasks/task_capture.hpp"
#include "runtime/tasks/task_times.hpp"
#include "scheduling/model/iteration_graph.hpp"
#include "scheduling/optimizer/search.hpp"

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
  OMNI_CHECK(training->seconds(arguments.warm_up, Asynchrony::free));
  OMNI_TRY(const double wall, training->seconds(iterations, Asynchrony::free));
  return wall / iterations;
}

}  // namespace

int GroupPlan::saturating_groups() const {
  const auto predicted = [this](int groups) {
    return std::ranges::find(rows, groups, &Row::groups)->predicted;
  };
  return smallest_saturating(rows.back().groups, predicted)->groups;
}

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
  groups.assign(spread_groups(2, workers));
  const double tuned = static_cast<double>(groups.net().options().solver.momentum);
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
    row.predicted = predict(measured, workers, row.layout, count == 1, plan.task_overhead);
    row.momentum = compensate(tuned, implicit_of_groups(count));
    row.penalty = statistical_penalty(row.momentum);
    if (arguments.measure) {
      OMNI_TRY(row.measured, measure(spec, arguments, session, count, images));
    }
  }
  return plan;
}

}  // namespace omni
