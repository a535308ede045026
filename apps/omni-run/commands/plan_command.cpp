// omni-run plan: what every number of compute groups would cost and save on this machine.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/groups.hpp"
#include "apps/omni-run/open_net.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/timed_training.hpp"
#include "runtime/log.hpp"
#include "scheduling/model/iteration_graph.hpp"

namespace omni {
namespace {

// The next number of groups must be that much faster to be worth its staleness.
constexpr double kWorthMoreGroups = 1.1;

struct Row {
  int groups;
  GroupLayout layout;
  double predicted = 0;            // s per iteration
  std::optional<double> measured{};  // s
  Momentum momentum{};
  double penalty = 1;  // of statistical efficiency
};

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

double predict(const Template& measured, int workers, const GroupLayout& layout, bool in_turn,
               double overhead) {
  return simulate_groups(measured.tasks, {.workers = workers,
                                          .layout = layout,
                                          .in_turn = in_turn,
                                          .iterations = 30 + 10 * static_cast<int>(layout.size()),
                                          .task_overhead = overhead})
      .seconds_per_iteration;
}

// What a task costs its worker besides the kernel: as much as makes the prediction for the measured
// run true.
double fitted_overhead(const Template& measured, int workers) {
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
  made.assign(spread_groups(groups, static_cast<int>(session.workers().size())));
  OMNI_TRY(const auto training, TimedTraining::make(std::move(made), images));
  const int iterations = arguments.iterations + 4 * groups;
  OMNI_CHECK(training->seconds(arguments.warm_up, Asynchrony::free));
  OMNI_TRY(const double wall, training->seconds(iterations, Asynchrony::free));
  return wall / iterations;
}

int saturating_groups(const std::vector<Row>& rows) {
  std::size_t best = 0;
  while (best + 1 < rows.size() &&
         rows[best].predicted > kWorthMoreGroups * rows[best + 1].predicted)
    ++best;
  return rows[best].groups;
}

void print_table(const std::vector<Row>& rows, double overhead) {
  fmt::print("{:>6} {:>10} {:>9} {:>9} {:>12} {:>11} {:>9} {:>9} {:>9}\n", "groups", "staleness",
             "implicit", "explicit", "predicted ms", "measured ms", "hardware", "updates", "time");
  for (const Row& row : rows) {
    const double hardware = row.predicted / rows.front().predicted;
    fmt::print("{:>6} {:>10} {:>9.3f} {:>9.3f} {:>12.3f} {:>11} {:>9.2f} {:>9.2f} {:>9.2f}\n",
               row.groups, row.groups - 1, row.momentum.implicit_part, row.momentum.explicit_part,
               1e3 * row.predicted, row.measured ? fmt::format("{:.3f}", 1e3 * *row.measured) : "-",
               hardware, row.penalty, hardware * row.penalty);
  }
  fmt::print(
      "hardware, updates, time: per iteration, iterations needed, their product; relative to one "
      "group\n{} group{} saturate{} this machine (more are less than {:.0f} % faster); {:.1f} us "
      "of "
      "overhead per task\n",
      saturating_groups(rows), saturating_groups(rows) == 1 ? "" : "s",
      saturating_groups(rows) == 1 ? "s" : "", 100 * (kWorthMoreGroups - 1), 1e6 * overhead);
}

void print_json(const std::vector<Row>& rows, double overhead) {
  auto list = nlohmann::ordered_json::array();
  for (const Row& row : rows)
    list.push_back({{"groups", row.groups},
                    {"layout", describe(row.layout)},
                    {"implicit_momentum", row.momentum.implicit_part},
                    {"explicit_momentum", row.momentum.explicit_part},
                    {"predicted_seconds", row.predicted},
                    {"measured_seconds", row.measured ? nlohmann::ordered_json(*row.measured)
                                                      : nlohmann::ordered_json(nullptr)},
                    {"hardware_penalty", row.predicted / rows.front().predicted},
                    {"statistical_penalty", row.penalty}});
  fmt::print("{}\n", nlohmann::ordered_json{{"rows", list},
                                            {"saturating_groups", saturating_groups(rows)},
                                            {"task_overhead_seconds", overhead}}
                         .dump(2));
}

}  // namespace

Status plan_command(const PlanArguments& given) {
  PlanArguments arguments = given;
  arguments.net = TimedTraining::without_learning(given.net);
  OMNI_TRY(const NetSpec spec, read_net(arguments.net));
  const GroupArguments two{.count = 2, .fully_connected = arguments.fully_connected};
  OMNI_TRY(ComputeGroups groups, open_groups(spec, arguments.net, two));
  OMNI_TRY(const DatasetPair data, open_data({.source = "synthetic"}, groups.net()));
  if (!groups.has_replicated_phase())
    return Error{ErrorKind::usage, spec.name, "all layers are fully connected and merged",
                 "--fc replicated gives every group a copy"};
  const double tuned = static_cast<double>(groups.net().options().solver.momentum);
  OMNI_TRY(const Session session, start_session(arguments.machine));
  const auto workers = static_cast<int>(session.workers().size());
  groups.assign(spread_groups(2, workers));

  Template measured;
  {
    OMNI_TRY(const auto training, TimedTraining::make(std::move(groups), *data.train));
    OMNI_TRY(measured, measure_template(*training, arguments));
  }
  const double overhead = fitted_overhead(measured, workers);
  std::vector<Row> rows;
  for (int count = 1; count <= arguments.most_groups; count *= 2) {
    Row& row = rows.emplace_back(Row{.groups = count, .layout = spread_groups(count, workers)});
    row.predicted = predict(measured, workers, row.layout, count == 1, overhead);
    row.momentum = compensate(tuned, implicit_of_groups(count));
    row.penalty = statistical_penalty(row.momentum);
    if (arguments.measure) {
      OMNI_TRY(row.measured, measure(spec, arguments, session, count, *data.train));
    }
  }
  (arguments.common.json ? print_json : print_table)(rows, overhead);
  return {};
}

}  // namespace omni
