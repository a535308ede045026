#include "apps/omni-run/commands/time_report.hpp"
#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace omni {
namespace {

std::string type_of(const Net& net, int layer) {
  return layer < 0 ? "update, decode" : net.layers()[static_cast<std::size_t>(layer)]->type();
}

// "onednn 0.412 (ran 80 %)  lowering 0.700  winograd ?"
std::string list_times(const std::map<std::string, TimeReport::Implementation>& implementations) {
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
  return fmt::format("{}", fmt::join(parts, "  "));
}

}  // namespace

TimeReport TimeReport::make(const std::vector<TaskTime>& times,
                            const std::vector<ExpectedTime>& expected, const WorkerPeaks& peaks,
                            int iterations) {
  TimeReport report;
  for (const ExpectedTime& time : expected)
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
  log::result("{:>3} {:<14} {:<18} {:>10} {:>11} {:>9} {:>8} {:>9}  {}\n", "#", "layer", "",
              "forward ms", "backward ms", "GFLOP/s", "of peak", "MB", "implementations");
  // Layers in their order, then what belongs to none.
  const auto for_each_layer = [&](auto&& row) {
    for (const auto& layer : net.layers())
      if (const auto found = layers.find(layer->index()); found != layers.end())
        row(layer->index(), layer->detail(), found->second);
    if (const auto found = layers.find(-1); found != layers.end()) row(-1, "", found->second);
  };
  for_each_layer([&](int index, const std::string& detail, const Layer& layer) {
    const double both = std::max(layer.forward + layer.backward, 1e-12);
    log::result("{:>3} {:<14} {:<18} {:>10.3f} {:>11.3f} {:>9.1f} {:>6.1f} % {:>9.2f}  {}\n", index,
                type_of(net, index), detail, 1e3 * layer.forward, 1e3 * layer.backward,
                1e-9 * layer.flops / both, 100 * layer.seconds_at_peak / both, 1e-6 * layer.bytes,
                fmt::join(layer.implementations, " "));
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
            "\nwhere there was a choice: ms of each, had it run all (what the models expect; "
            "?: not measured)\n");
      log::result("{:>3} {:<14} {:<30} {}\n", index, type_of(net, index), codelet,
                  list_times(implementations));
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

}  // namespace omni
