// omni-run time: where one training iteration's time goes, by layer, and which implementations ran.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/open_net.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/timed_training.hpp"
#include "apps/omni-run/tracing.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "runtime/tasks/task_times.hpp"
#include "scheduling/stopwatch.hpp"

namespace omni {
namespace {

// Seconds of worker time per iteration.
struct LayerTime {
  double forward = 0, backward = 0, flops = 0;
  std::set<std::string> implementations;
};

struct Measurement {
  std::map<int, LayerTime> layers;  // -1: updates and decoding
  double iteration_seconds = 0;     // wall
  double tasks = 0;                 // per iteration
  std::vector<double> periods;      // seconds from one iteration's loss to the next one's
};

Measurement summarise(const std::vector<TaskTime>& times, double wall, int iterations) {
  Measurement result{
      .layers = {}, .iteration_seconds = wall / iterations, .tasks = 0, .periods = {}};
  for (const TaskTime& time : times) {
    LayerTime& layer = result.layers[time.layer];
    const bool backward = time.codelet.find("backward") != std::string::npos;
    (backward ? layer.backward : layer.forward) += time.seconds / iterations;
    layer.flops += time.flops / iterations;
    layer.implementations.insert(time.implementation);
    result.tasks += static_cast<double>(time.tasks) / iterations;
  }
  return result;
}

void print_table(const Net& net, const Measurement& measured, double images_per_second) {
  fmt::print("{:>3} {:<14} {:<18} {:>12} {:>12} {:>10}  {}\n", "#", "layer", "", "forward ms",
             "backward ms", "GFLOP/s", "implementations");
  const auto row = [&](int index, std::string_view type, const std::string& detail) {
    const auto found = measured.layers.find(index);
    if (found == measured.layers.end()) return;
    const LayerTime& time = found->second;
    fmt::print("{:>3} {:<14} {:<18} {:>12.3f} {:>12.3f} {:>10.1f}  {}\n", index, type, detail,
               1e3 * time.forward, 1e3 * time.backward,
               1e-9 * time.flops / std::max(time.forward + time.backward, 1e-12),
               fmt::join(time.implementations, " "));
  };
  for (const auto& layer : net.layers()) row(layer->index(), layer->type(), layer->detail());
  row(-1, "update, decode", "");
  fmt::print("one iteration: {:.3f} ms wall, {:.1f} images/s, {:.0f} tasks\n",
             1e3 * measured.iteration_seconds, images_per_second, measured.tasks);
}

void print_json(const Net& net, const Measurement& measured, double images_per_second) {
  auto layers = nlohmann::ordered_json::array();
  for (const auto& [index, time] : measured.layers)
    layers.push_back({{"index", index},
                      {"type", index < 0 ? "update, decode"
                                         : net.layers()[static_cast<std::size_t>(index)]->type()},
                      {"forward_seconds", time.forward},
                      {"backward_seconds", time.backward},
                      {"flops", time.flops},
                      {"implementations", time.implementations}});
  fmt::print("{}\n", nlohmann::ordered_json{{"net", net.name()},
                                            {"batch", net.options().batch},
                                            {"iteration_seconds", measured.iteration_seconds},
                                            {"iteration_periods", measured.periods},
                                            {"images_per_second", images_per_second},
                                            {"tasks_per_iteration", measured.tasks},
                                            {"layers", layers}}
                         .dump(2));
}

}  // namespace

Status time_command(const TimeArguments& arguments) {
  OMNI_TRY(auto opened, open_net(TimedTraining::without_learning(arguments.net), true));
  OMNI_TRY(const DatasetPair data, open_data({.source = "synthetic"}, *opened));
  OMNI_TRY(const Session session, start_session(arguments.machine));
  OMNI_TRY(const auto training,
           TimedTraining::make(ComputeGroups(std::move(opened)), *data.train, arguments.machine));
  Net* const net = &training->groups().net();

  // The models try every implementation some ten times before they are trusted.
  OMNI_CHECK(training->seconds(arguments.warm_up, Asynchrony::reproducible));
  OMNI_TRY(const auto recorder, start_trace(arguments.trace, session, *net));
  task_times::start();
  std::vector<double> losses_at;
  Stopwatch watch;
  watch.start();
  OMNI_TRY(const double wall,
           training->seconds(arguments.iterations, Asynchrony::reproducible,
                             [&](const StepReport&) { losses_at.push_back(watch.seconds()); }));
  Measurement measured = summarise(task_times::finish(), wall, arguments.iterations);
  for (std::size_t i = 1; i < losses_at.size(); ++i)
    measured.periods.push_back(losses_at[i] - losses_at[i - 1]);
  const double images_per_second = net->options().batch / measured.iteration_seconds;
  (arguments.common.json ? print_json : print_table)(*net, measured, images_per_second);
  return {};
}

}  // namespace omni
