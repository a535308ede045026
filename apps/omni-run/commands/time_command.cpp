// omni-run time shows the time of a training iteration by layer, the implementations that ran, and
// the expected times of all that could run.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/command_line.hpp"
#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/groups/timed_training.hpp"
#include "apps/omni-run/setup.hpp"
#include "codelets/dense/peaks.hpp"
#include "layers/net.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/task_times.hpp"
#include "scheduling/training/stopwatch.hpp"

namespace omni {
namespace {

// WorkerPeaks are flops per second of large matrix products on one CPU worker and on one GPU; 0:
// there is none.
struct WorkerPeaks {
  double cpu = 0, gpu = 0;
};

// The numbers of a TimeReport are per iteration. Seconds are summed over workers.
struct TimeReport {
  struct Implementation {
    bool on_gpu = false;
    double tasks = 0;     // number of tasks that it ran
    double expected = 0;  // seconds if it ran all tasks of this codelet and layer; NaN: not known
  };
  struct Layer {
    double forward = 0, backward = 0;  // seconds
    double flops = 0, bytes = 0;
    double seconds_at_peak = 0;             // s that large matrix products of as many flops take
    std::set<std::string> implementations;  // implementations that ran
    std::map<std::string, std::map<std::string, Implementation>> codelets;
  };
  std::map<int, Layer> layers;  // -1: updates and decoding
  double seconds = 0;           // wall time
  double tasks = 0;
  std::vector<double> periods;  // seconds from one iteration's loss to the next one's

  static TimeReport make(const std::vector<TaskTime>& times, const std::vector<TaskTime>& expected,
                         const WorkerPeaks& peaks, int iterations);
  void print_table(const Net& net) const;
  void print_json(const Net& net) const;

 private:
  double images_per_second(const Net& net) const { return net.options().batch / seconds; }
};

std::string type_of(const Net& net, int layer) {
  return layer < 0 ? "update, decode" : net.layers()[layer]->type();
}

// Joins the lines of a table's last column, which begins at column `indent`.
std::string column(const std::vector<std::string>& lines, std::size_t indent) {
  return fmt::format("{}", fmt::join(lines, "\n" + std::string(indent, ' ')));
}

// Returns a text for each implementation, as "onednn 0.412 (ran 80 %)": its expected milliseconds,
// and the share of the tasks that it ran. An unknown time is "winograd ?".
std::vector<std::string> list_times(
    const std::map<std::string, TimeReport::Implementation>& implementations) {
  double tasks = 0;
  for (const auto& [name, implementation] : implementations) tasks += implementation.tasks;
  std::vector<std::string> parts;
  for (const auto& [name, implementation] : implementations) {
    std::string part = std::isnan(implementation.expected)
                           ? name + " ?"
                           : fmt::format("{} {:.3f}", name, 1e3 * implementation.expected);
    if (implementation.tasks > 0)
      part += fmt::format(" (ran {:.0f} %)", 100 * implementation.tasks / tasks);
    parts.push_back(std::move(part));
  }
  return parts;
}

TimeReport TimeReport::make(const std::vector<TaskTime>& times,
                            const std::vector<TaskTime>& expected, const WorkerPeaks& peaks,
                            int iterations) {
  TimeReport report;
  for (const TaskTime& time : expected)
    report.layers[time.layer].codelets[time.codelet][time.implementation] = {
        .on_gpu = time.on_gpu, .expected = time.seconds};
  for (const TaskTime& time : times) {
    Layer& layer = report.layers[time.layer];
    const bool backward = time.codelet.find("backward") != std::string::npos;
    (backward ? layer.backward : layer.forward) += time.seconds / iterations;
    layer.flops += time.flops / iterations;
    layer.bytes += time.bytes / iterations;
    layer.implementations.insert(time.implementation);
    Implementation& implementation = layer.codelets[time.codelet][time.implementation];
    implementation.tasks = static_cast<double>(time.tasks) / iterations;
    layer.seconds_at_peak +=
        time.flops / iterations / (implementation.on_gpu ? peaks.gpu : peaks.cpu);
    report.tasks += implementation.tasks;
  }
  return report;
}

void TimeReport::print_table(const Net& net) const {
  log::result(
      "one iteration, all workers together: times in ms; MB read and written at least\n"
      "of peak: GFLOP/s as a share of what a large matrix product reaches;\n"
      "Winograd computes less than it counts, so it may exceed 100 %\n"
      "{:>3} {:<14} {:<17} {:>9} {:>9}  {:>7}  {:>7} {:>6}  {}\n",
      "#", "layer", "", "forward", "backward", "GFLOP/s", "of peak", "MB", "implementations");
  // Visits the layers in their order, then the tasks of no layer.
  const auto for_each_layer = [&](auto&& row) {
    for (const auto& layer : net.layers())
      if (const auto found = layers.find(layer->index()); found != layers.end())
        row(layer->index(), layer->detail(), found->second);
    if (const auto found = layers.find(-1); found != layers.end()) row(-1, "", found->second);
  };
  for_each_layer([&](int index, const std::string& detail, const Layer& layer) {
    const double both = std::max(layer.forward + layer.backward, 1e-12);
    log::result("{:>3} {:<14.14} {:<17.17} {:>9.3f} {:>9.3f}  {:>7.1f}  {:>5.1f} % {:>6.1f}  {}\n",
                index < 0 ? "" : std::to_string(index), type_of(net, index), detail,
                1e3 * layer.forward, 1e3 * layer.backward, 1e-9 * layer.flops / both,
                100 * layer.seconds_at_peak / both, 1e-6 * layer.bytes,
                column(wrapped(fmt::format("{}", fmt::join(layer.implementations, " ")), 17), 83));
  });
  log::result(
      "one iteration: {:.3f} ms wall, {:.1f} images/s, {:.0f} tasks, {:.1f} us of wall time per "
      "task\n",
      1e3 * seconds, images_per_second(net), tasks, 1e6 * seconds / tasks);
  bool had_choice = false;
  for_each_layer([&](int index, const std::string&, const Layer& layer) {
    for (const auto& [codelet, implementations] : layer.codelets) {
      if (implementations.size() < 2) continue;
      if (!std::exchange(had_choice, true))
        log::result(
            "\nimplementations to choose from: ms per iteration if one alone ran all tasks of the "
            "row\n(predicted; ?: too few measurements yet; in parentheses: its share of the "
            "tasks)\n");
      log::result("{:>3} {:<14.14} {:<26} {}\n", index < 0 ? "" : std::to_string(index),
                  type_of(net, index), codelet, column(list_times(implementations), 46));
    }
  });
}

void TimeReport::print_json(const Net& net) const {
  using nlohmann::ordered_json;
  auto rows = ordered_json::array();
  for (const auto& [index, layer] : layers) {
    auto codelets = ordered_json::object();
    for (const auto& [codelet, implementations] : layer.codelets)
      for (const auto& [name, implementation] : implementations) {
        ordered_json& row = codelets[codelet][name];
        row["tasks"] = implementation.tasks;
        if (!std::isnan(implementation.expected)) row["expected_seconds"] = implementation.expected;
      }
    rows.push_back({{"index", index},
                    {"type", type_of(net, index)},
                    {"forward_seconds", layer.forward},
                    {"backward_seconds", layer.backward},
                    {"flops", layer.flops},
                    {"bytes", layer.bytes},
                    {"seconds_at_peak", layer.seconds_at_peak},
                    {"implementations", layer.implementations},
                    {"codelets", codelets}});
  }
  log::result("{}\n", json_text(ordered_json{{"net", net.name()},
                                             {"batch", net.options().batch},
                                             {"iteration_seconds", seconds},
                                             {"iteration_periods", periods},
                                             {"images_per_second", images_per_second(net)},
                                             {"tasks_per_iteration", tasks},
                                             {"layers", rows}},
                                2));
}

// Measures the rates of one worker while all workers of its kind compute.
WorkerPeaks measure_peaks(const Session& session, const MachineArguments& machine) {
  const int workers = cpu_workers(session);
  WorkerPeaks peaks;
  if (workers > 0) peaks.cpu = measure_cpu_gemm(session, workers) / workers;
#ifdef OMNI_CUDA
  const std::vector<int>& gpus = machine.session.gpus;
  if (!gpus.empty())
    peaks.gpu =
        measure_gpu_gemm(gpus, machine.session.precision) / static_cast<double>(gpus.size());
#else
  (void)machine;
#endif
  return peaks;
}

}  // namespace

Status time_command(const TimeArguments& arguments) {
  NetArguments net_arguments = arguments.net;
  net_arguments.learns = false;
  OMNI_TRY(const TrainableNet spec, read_net(net_arguments));
  OMNI_TRY(auto opened, build_net(spec, net_arguments, true));
  OMNI_TRY(const DatasetPair data, open_data({.source = "synthetic"}, *opened, spec));
  OMNI_TRY(const Session session, start_session(arguments.machine));
  OMNI_TRY(const auto training, TimedTraining::make(ComputeGroups(std::move(opened)), spec,
                                                    *data.train, arguments.machine));
  Net* const net = &training->groups().net();
  const WorkerPeaks peaks = measure_peaks(session, arguments.machine);

  // StarPU's models try each implementation about ten times before they use it.
  OMNI_CHECK(training->seconds(arguments.warm_up, Asynchrony::reproducible));
  std::vector<TaskTime> times;
  std::vector<double> losses_at;
  double wall = 0;
  const auto measure = [&]() -> Status {
    Stopwatch watch;
    OMNI_TRY(wall,
             training->seconds(arguments.iterations, Asynchrony::reproducible,
                               [&](const StepReport&) { losses_at.push_back(watch.seconds()); }));
    return {};
  };
  // Marks between kernels slow a GPU down, so the times of its layers are measured in separate
  // iterations.
  const bool apart = gpus_compute();
  if (apart) OMNI_CHECK(measure());
  const bool few = apart && arguments.trace.empty();
  const int timed = few ? std::min(arguments.iterations, 20) : arguments.iterations;
  {
    OMNI_TRY(const auto recorder, start_trace(arguments.trace, session, *net));
    task_times.start();
    if (apart)
      OMNI_CHECK(training->seconds(timed, Asynchrony::reproducible));
    else
      OMNI_CHECK(measure());
    times = task_times.finish();
  }
  // Asking the models takes time, so this happens in another iteration that is not timed.
  expected_times.start();
  OMNI_CHECK(training->seconds(1, Asynchrony::reproducible));
  TimeReport report = TimeReport::make(times, expected_times.finish(), peaks, timed);
  report.seconds = wall / arguments.iterations;
  for (std::size_t i = 1; i < losses_at.size(); ++i)
    report.periods.push_back(losses_at[i] - losses_at[i - 1]);
  if (arguments.common.json)
    report.print_json(*net);
  else
    report.print_table(*net);
  return {};
}

}  // namespace omni
