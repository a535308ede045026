// omni-run plan predicts the training time for every number of compute groups on this machine. With
// --gpu it predicts speed and memory on a GPU that this machine lacks. On such a GPU a task takes
// the longer of two times (the roofline): that of its flops, or that of its memory traffic. A
// machine file has the rates.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/groups/plan_groups.hpp"
#include "apps/omni-run/groups/timed_training.hpp"
#include "apps/omni-run/memory/demand.hpp"
#include "apps/omni-run/setup.hpp"
#include "codelets/elementwise/exchange.hpp"
#include "runtime/cuda/devices.hpp"
#include "runtime/data/damaged_images.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "scheduling/forecast/group_plan.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni {
namespace {

std::string updates_of(const GroupPlan::Row& row) {
  if (row.groups == 1) return "1";
  if (row.penalty) return fmt::format("{:.2f} +- {:.2f}", *row.penalty, *row.penalty_error);
  return "not measured";
}

// A NodeLink is the link between nodes, with the source of its numbers.
struct NodeLink {
  Machine::Link link{};
  std::string origin{};
  double spread = 1;  // of ranks::Link
};

Result<NodeLink> link_of(const PlanArguments& arguments) {
  if (arguments.nodes.empty()) return NodeLink();
  if (!arguments.link.empty()) {
    OMNI_TRY(const Machine::Link link, parse_link(arguments.link));
    return NodeLink{link, "given"};
  }
  if (arguments.links.empty())
    return Error{ErrorKind::usage, "--nodes", "the link between nodes is not known",
                 "--link 1gbit:50us, say, or start it on two nodes with mpiexec"};
  const ranks::Link slowest = ranks::slowest(arguments.links);
  return NodeLink{machine_link(slowest),
                  fmt::format("measured between {} ranks", arguments.links.size()), slowest.spread};
}

std::string told(const NodeCount& nodes) {
  return fmt::format("{}{}", nodes.computing, nodes.server ? "+1" : "");
}

void print_forecast(const std::vector<NodeForecast>& rows, const NodeLink& link) {
  if (rows.empty()) return;
  log::result("\nlink: {} ({})",
              ranks::describe({.seconds = link.link.seconds,
                               .bytes_per_second = link.link.bytes_per_second,
                               .spread = link.spread}),
              link.origin);
  log::result("\n{:>7} {:>6} {:>18} {:>10} {:>10} {:>14} {:>13} {:>9} {:>9} {:>8}  {}\n", "nodes",
              "groups", "strategy", "compute ms", "network ms", "activations ms", "statistics ms",
              "merged ms", "update ms", "speed-up", "busy most");
  for (const NodeForecast& row : rows)
    log::result(
        "{:>7} {:>6} {:>18} {:>10.3f} {:>10.3f} {:>14.3f} {:>13.3f} {:>9.3f} {:>9.3f} {:>8.2f}  "
        "{}, {:.0f} %{}{}\n",
        told(row.nodes), row.groups, row.strategies, 1e3 * row.compute, 1e3 * row.network,
        1e3 * row.activations, 1e3 * row.statistics, 1e3 * row.merged, 1e3 * row.update.seconds,
        rows.front().update.seconds / row.update.seconds, row.update.busiest,
        100 * row.update.share,
        row.with_equal_shares
            ? fmt::format("; with equal shares {:.3f} ms", 1e3 * *row.with_equal_shares)
            : "",
        &row == &fastest(rows) ? "  <- most updates per second" : "");
  log::result(
      "compute to merged: of one group's mini-batch, if nothing else were busy; update: from one "
      "update to the next\nspeed-up: in updates per second, over the first line; how many updates "
      "are needed is not counted\n");
}

void print_table(const GroupPlan& plan, const std::vector<NodeForecast>& nodes,
                 const NodeLink& link) {
  log::result("{:>6} {:>10} {:>9} {:>9} {:>12} {:>11} {:>9} {:>14} {:>9}\n", "groups", "staleness",
              "implicit", "explicit", "predicted ms", "measured ms", "hardware", "updates", "time");
  for (const GroupPlan::Row& row : plan.rows) {
    const double hardware = row.predicted / plan.rows.front().predicted;
    const auto measured = row.median_measured();
    log::result("{:>6} {:>10} {:>9.3f} {:>9.3f} {:>12.3f} {:>11} {:>9.2f} {:>14} {:>9}\n",
                row.groups, row.groups - 1, row.momentum.implicit_part, row.momentum.explicit_part,
                1e3 * row.predicted, measured ? fmt::format("{:.3f}", 1e3 * *measured) : "-",
                hardware, updates_of(row),
                row.penalty ? fmt::format("{:.2f}", hardware * *row.penalty) : "-");
  }
  const IterationWork& work = plan.rows.back().work;
  log::result(
      "measured work per iteration with {} group{}: replicated layers {:.3f} ms, merged layers "
      "{:.3f} ms, exchanges {:.3f} ms\n",
      plan.rows.back().groups, plan.rows.back().groups == 1 ? "" : "s", 1e3 * work.groups,
      1e3 * work.merged, 1e3 * work.exchanges);
  const bool measured = std::ranges::all_of(
      plan.rows, [](const GroupPlan::Row& row) { return row.penalty.has_value(); });
  const int best = plan.best().groups, saturating = plan.saturating_groups();
  log::result(
      "best: {} group{}\nstaleness: age of a gradient, in updates; implicit: momentum that "
      "staleness adds\nexplicit: momentum of the updates; both together act like the net's\n"
      "hardware: time per iteration; updates: updates needed{}; time: their product; all relative "
      "to one group\n{} group{} saturate{} this machine (more are predicted "
      "to be less than {:.0f} % faster)\n",
      best, best == 1 ? "" : "s",
      measured ? "" : " (--measure-updates measures them; best supposes the root of the groups)",
      saturating, saturating == 1 ? "" : "s", saturating == 1 ? "s" : "",
      100 * (kWorthMoreGroups - 1));
  print_forecast(nodes, link);
}

nlohmann::ordered_json nullable(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

void print_json(const GroupPlan& plan, const std::vector<NodeForecast>& nodes,
                const NodeLink& link) {
  auto list = nlohmann::ordered_json::array();
  for (const GroupPlan::Row& row : plan.rows)
    list.push_back({{"groups", row.groups},
                    {"layout", describe(row.layout)},
                    {"images_per_slice", row.images_per_slice},
                    {"implicit_momentum", row.momentum.implicit_part},
                    {"explicit_momentum", row.momentum.explicit_part},
                    {"predicted_seconds", row.predicted},
                    {"task_overhead_seconds", row.task_overhead},
                    {"work_seconds",
                     {{"groups", row.work.groups},
                      {"merged", row.work.merged},
                      {"exchanges", row.work.exchanges}}},
                    {"measured_seconds", nullable(row.median_measured())},
                    {"measured_rounds", row.measured},
                    {"hardware_penalty", row.predicted / plan.rows.front().predicted},
                    {"statistical_penalty", nullable(row.penalty)},
                    {"statistical_penalty_error", nullable(row.penalty_error)}});
  nlohmann::ordered_json all{{"rows", list}, {"saturating_groups", plan.saturating_groups()}};
  if (!nodes.empty()) {
    all["node"] = {{"batch", plan.node.net.images},
                   {"seconds", plan.node.seconds},
                   {"merged_share", plan.node.net.merged_share}};
    all["link"] = {{"latency_seconds", link.link.seconds},
                   {"bytes_per_second", link.link.bytes_per_second},
                   {"core_seconds_per_message", link.link.work_per_message},
                   {"core_seconds_per_byte", link.link.work_per_byte},
                   {"origin", link.origin}};
  }
  for (const NodeForecast& row : nodes)
    all["nodes"].push_back({{"nodes", row.nodes.all()},
                            {"serving", row.nodes.server ? 1 : 0},
                            {"groups", row.groups},
                            {"strategies", row.strategies},
                            {"compute_seconds", row.compute},
                            {"network_seconds", row.network},
                            {"activations_seconds", row.activations},
                            {"statistics_seconds", row.statistics},
                            {"merged_seconds", row.merged},
                            {"predicted_seconds", row.update.seconds},
                            {"busiest", row.update.busiest},
                            {"busy_share", row.update.share},
                            {"fastest", &row == &fastest(nodes)}});
  if (!plan.node.speeds.empty())
    for (std::size_t at = 0; at < nodes.size(); ++at)
      all["nodes"][at]["equal_shares_seconds"] = nullable(nodes[at].with_equal_shares);
  log::result("{}\n", json_text(all, 2));
}

constexpr double kContext = 0x1p29;  // bytes that a CUDA context takes
// The largest mini-batch is searched in multiples of this unit.
constexpr int kBatchUnit = 16, kMostUnits = 1024;

std::size_t held_on_gpu(std::unique_ptr<Net> net, const AugmentOptions& augment,
                        const Dataset& images, const MachineArguments& machine) {
  ComputeGroups groups(std::move(net));
  const DataFeed feed(images, feed_options(groups.net(), augment, 1, true, Trainer::slots(groups)));
  const MemoryDemand demand = training_demand(groups, feed, nullptr, working_on_gpus(groups.net()));
  return MemoryForecast(groups.net(), demand, machine).on_each_gpu().all();
}

int largest_batch(const PlanArguments& arguments, const Dataset& images) {
  int units = 0;
  for (int more = kMostUnits; more > 0; more /= 2) {
    NetArguments tried = arguments.net;
    tried.named.batch = kBatchUnit * (units + more);
    tried.named.subdivisions = 1;
    const auto spec = read_net(tried);
    if (!spec) continue;
    auto net = build_net(*spec, tried, true);  // fails if tensors are too large
    if (net && held_on_gpu(std::move(*net), spec->augment, images, arguments.machine) <=
                   arguments.machine.gpu_memory)
      units += more;
  }
  return kBatchUnit * units;
}

std::vector<CapturedTask> update_tasks(Net& net) {
  std::vector<Exchange> updates;
  for (const Param* param : net.params())
    if (param->trainable)
      updates.push_back({{.clears = !param->overwrites_diff},
                         {.master = *param->master,
                          .diff = *param->diff,
                          .velocity = *param->velocity,
                          .mean_square = param->mean_square}});
  return task_capture::capture_tasks([&] { submit_exchanges(updates, ExchangeOrder::submission); });
}

}  // namespace

Status plan_command(const PlanArguments& given) {
  PlanArguments arguments = given;
  arguments.net.learns = false;
  OMNI_TRY(const NodeLink link, link_of(given));
  std::vector<NodeCount> nodes;
  for (const std::string& text : given.nodes) {
    OMNI_TRY(const NodeCount count, parse_node_count(text));
    nodes.push_back(count);
  }
  std::vector<double> speeds;
  if (!given.node_speeds.empty()) {
    OMNI_TRY(speeds, parse_speeds(given.node_speeds));
  }
  OMNI_TRY(const TrainableNet spec, read_net(arguments.net));
  OMNI_TRY(const auto net, build_net(spec, arguments.net, true));
  OMNI_TRY(const DatasetPair data, open_data({.source = "synthetic"}, *net, spec));
  OMNI_TRY(const Session session, start_session(arguments.machine));
  if (!given.data.source.empty()) {
    OMNI_TRY(DatasetPair real, open_data(given.data, *net, spec));
    real.train = skip_damaged_images(std::move(real.train), given.data.damaged, true);
    const UpdateRatios known =
        update_ratios_of(spec, net->options().batch, real.name, given.machine);
    if (given.update_iterations > 0) {
      OMNI_TRY(const auto counts, measure_updates(given, session, *real.train));
      OMNI_CHECK(known.write(counts));
    }
    arguments.counts = known.read();
  }
  OMNI_TRY(GroupPlan plan, plan_groups(spec, arguments, session, *data.train));
  plan.node.net.send = given.send;
  plan.node.speeds = std::move(speeds);
  (arguments.common.json ? print_json : print_table)(
      plan, forecast_nodes(plan.node, link.link, nodes), link);
  return {};
}

Status plan_gpu_command(const PlanArguments& given) {
  PlanArguments arguments = given;
  MachineArguments& here = arguments.machine;
  const Precision precision = here.session.precision;
  OMNI_TRY(const Machine machine, read_machine(arguments.gpu));
  const auto gpu = std::ranges::find_if(
      machine.devices, [](const Machine::Device& each) { return each.roofline.has_value(); });
  if (gpu == machine.devices.end())
    return Error{ErrorKind::usage, "--gpu " + arguments.gpu,
                 "no device of this machine has a \"roofline\"", "h100 and h200 have one"};
  set_implementation_policy(
      {.preferred = {}, .gpu_workers = {1}, .precision = precision, .gpus_alone = true});
  arguments.net.gpus = 1;
  if (precision == Precision::bf16) arguments.net.values = DataType::bf16;
  here.session.gpus = {0};
  here.gpu_memory = left_by_libraries(static_cast<std::size_t>(gpu->memory - kContext));
  here.most_workspace = most_workspace(static_cast<std::size_t>(gpu->memory));

  OMNI_TRY(const TrainableNet spec, read_net(arguments.net));
  OMNI_TRY(auto net, build_net(spec, arguments.net, true));
  OMNI_TRY(const DatasetPair data, open_data({.source = "synthetic"}, *net, spec));
  double seconds = 0;
  std::map<std::string, double> by_codelet;
  const auto count = [&](const std::vector<CapturedTask>& tasks, int times) {
    for (const CapturedTask& task : tasks) {
      const double all = times * gpu->roofline->seconds_of(task.flops, task.bytes,
                                                           static_cast<std::size_t>(precision));
      by_codelet[task.codelet] += all;
      seconds += all;
    }
  };
  count(net->capture_tasks(task_capture::Working::unknown, false), net->options().subdivisions);
  count(update_tasks(*net), 1);
  const std::string name = net->name();
  const int batch = net->options().batch;
  const std::size_t held = held_on_gpu(std::move(net), spec.augment, *data.train, here);
  const int largest = largest_batch(arguments, *data.train);
  if (arguments.common.json) {
    const nlohmann::ordered_json forecast{{"net", name},
                                          {"machine", machine.name},
                                          {"batch", batch},
                                          {"iteration_seconds", seconds},
                                          {"images_per_second", batch / seconds},
                                          {"seconds_by_codelet", by_codelet},
                                          {"bytes_on_gpu", held},
                                          {"bytes_there", here.gpu_memory},
                                          {"largest_batch", largest}};
    log::result("{}\n", json_text(forecast, 2));
  } else {
    log::result(
        "{}, {} images in {}, on {}: {:.0f} images/s, {:.2f} ms an iteration, {:.2f} of {:.2f} "
        "GiB, mini-batches of up to {} (forecast, not measured)\n",
        name, batch, name_of(precision), machine.name, batch / seconds, 1e3 * seconds,
        static_cast<double>(held) / 0x1p30, static_cast<double>(here.gpu_memory) / 0x1p30, largest);
  }
  return {};
}

}  // namespace omni
