#include "scheduling/forecast/node_forecast.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/number_in.hpp"
#include "scheduling/groups/group_layout.hpp"
#include "scheduling/strategies/registry.hpp"

namespace omni {
namespace {

using Units = std::initializer_list<std::pair<std::string_view, double>>;

std::optional<double> with_unit(std::string_view text, Units units) {
  for (const auto& [name, size] : units)
    if (text.ends_with(name)) {
      const auto number = number_in<double>(text.substr(0, text.size() - name.size()));
      if (number && *number > 0 && *number < 1e9) return *number * size;
    }
  return std::nullopt;
}

Machine machine_of(const NodeCosts& costs, const Machine::Link& link, const NodeCount& nodes) {
  const Machine::Device node{
      .kind = Machine::Kind::node,
      .seconds = {{static_cast<std::uint64_t>(costs.net.images), costs.seconds}},
      .cores = costs.cores};
  Machine machine{.name = "nodes", .devices = {}, .link = link};
  machine.devices.assign(static_cast<std::size_t>(nodes.all()), node);
  for (std::size_t at = 0; at < machine.devices.size() && !costs.speeds.empty(); ++at)
    for (auto& [images, seconds] : machine.devices[at].seconds)
      seconds /= costs.speeds[std::min(at, costs.speeds.size() - 1)];
  if (nodes.server) machine.devices.back().serves_merged = true;
  return machine;
}

NodeForecast row_of(const NodeCosts& costs, const Machine& machine, int groups, bool merges,
                    const Meetings& meetings) {
  VirtualClock clock(machine, place_on(machine, groups, merges), costs.net, 1);
  const Demands& demands = clock.demands();
  const Demands::Group& group = demands.groups.front();
  const auto images = static_cast<std::uint64_t>(costs.net.images);
  NodeForecast row{.groups = groups};
  row.compute = divide(machine, clock.placement().devices.front(), images, costs.net.flops).seconds;
  if (merges) {
    row.merged = row.compute * costs.net.merged_share;
    row.compute -= row.merged;
    row.merged = costs.seconds * costs.net.merged_share;
    if (machine.devices.size() > 1) row.merged += 2 * machine.link.seconds_of(demands.activations);
  }
  row.compute += group.work + group.exchange_work;
  if (machine.devices.size() > 1) {
    // The link sends gradients to the owners of parameters, and new values back.
    const auto [least, most] = std::ranges::minmax(demands.owned);
    row.network = 2 * machine.link.seconds_of(
                          std::max(demands.parameters - least,
                                   most * (static_cast<double>(demands.owned.size()) - 1)));
    row.statistics = 2 * group.statistics_seconds;
    if (group.values > 0)
      row.activations = 2 * (machine.link.seconds_of(group.values) + machine.link.seconds);
  }
  row.update = forecast_updates(clock, meetings, images);
  return row;
}

// Returns a machine whose nodes are all as slow as the slowest one, for which they would wait with
// equal shares.
Machine as_slow(Machine machine) {
  const auto slowest = std::ranges::max(machine.devices, {}, [](const Machine::Device& device) {
    return device.seconds.begin()->second;
  });
  for (Machine::Device& device : machine.devices) device.seconds = slowest.seconds;
  return machine;
}

bool has_merged(const NetCosts& net) {
  return !net.merged.parts.empty() || !net.merged.connected.empty();
}

}  // namespace

std::vector<NodeForecast> forecast_nodes(const NodeCosts& costs, const Machine::Link& link,
                                         std::span<const NodeCount> nodes) {
  std::vector<NodeForecast> rows;
  const auto add = [&](const NodeCount& count, const Machine& machine, int groups) {
    struct Way {
      bool merges;
      Meetings meetings;
      std::string names;
    };
    std::vector<Way> ways;
    for (const StrategyType& type : strategy_types()) {
      if ((groups == 1) != (type.most_groups == 1)) continue;
      const bool merges = groups > 1 && type.models == GroupModels::one && has_merged(costs.net);
      const auto same = std::ranges::find_if(ways, [&](const Way& way) {
        return way.merges == merges && way.meetings == type.meetings;
      });
      if (same == ways.end())
        ways.push_back({merges, type.meetings, std::string(type.name)});
      else
        same->names += ", " + std::string(type.name);
    }
    for (const Way& way : ways) {
      NodeForecast& row =
          rows.emplace_back(row_of(costs, machine, groups, way.merges, way.meetings));
      row.nodes = count;
      if (!costs.speeds.empty() && groups == 1 && count.all() > 1)
        row.with_equal_shares =
            row_of(costs, as_slow(machine), groups, way.merges, way.meetings).update.seconds;
      row.strategies = way.names;
    }
  };
  for (const NodeCount& count : nodes) {
    const Machine machine = machine_of(costs, link, count);
    int groups = 1;
    const int most = std::min(count.computing, kMostGroups);
    for (; groups <= most && count.computing % groups == 0; groups *= 2)
      add(count, machine, groups);
    if (groups / 2 < most && most == count.computing) add(count, machine, most);
  }
  return rows;
}

const NodeForecast& fastest(std::span<const NodeForecast> rows) {
  return *std::ranges::min_element(rows, {},
                                   [](const NodeForecast& row) { return row.update.seconds; });
}

Result<NodeCount> parse_node_count(const std::string& text) {
  constexpr int kMostNodes = 4096;
  const std::string_view all = text;
  NodeCount count{.server = all.ends_with("+1")};
  const auto computing = number_in<int>(all.substr(0, all.size() - (count.server ? 2 : 0)));
  if (!computing || *computing < 1 || *computing > kMostNodes)
    return Error{ErrorKind::usage, "--nodes " + text, "is no number of nodes",
                 "8, or 8+1 with one more that serves merged layers"};
  count.computing = *computing;
  return count;
}

Result<std::vector<double>> parse_speeds(const std::string& text) {
  std::vector<double> speeds;
  for (const std::string_view each : split(text, ':')) {
    const auto speed = number_in<double>(each);
    if (!speed || !(*speed >= 1e-3 && *speed <= 1e3))
      return Error{ErrorKind::usage, "--node-speeds " + text,
                   "are no speeds of nodes from 0.001 to 1000", "1:1:0.5, say"};
    speeds.push_back(*speed);
  }
  return speeds;
}

Result<Machine::Link> parse_link(const std::string& text) {
  const std::string_view all = text;
  const std::size_t colon = std::min(all.find(':'), all.size());
  const auto rate =
      with_unit(all.substr(0, colon), {{"kbit", 125.}, {"mbit", 125e3}, {"gbit", 125e6}});
  const auto latency = colon == all.size() ? std::optional(0.)
                                           : with_unit(all.substr(colon + 1),
                                                       {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1.}});
  if (!rate || !latency)
    return Error{ErrorKind::usage, "--link " + text, "is no rate and latency", "1gbit:50us"};
  return Machine::Link{.seconds = *latency, .bytes_per_second = *rate};
}

}  // namespace omni
