#include "scheduling/model/node_forecast.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "layers/slice_choice.hpp"
#include "runtime/number_in.hpp"

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

// Bytes that the busiest node sends or receives when gradients go to the owners; as many come back.
double busiest(const NodeCosts& costs, int nodes, int groups) {
  std::vector<double> parts = costs.parameters;
  for (const double bytes : costs.divisible) {
    const auto weights = static_cast<std::int64_t>(bytes / 4);
    const int blocks = choose_connected_blocks(weights, 1, costs.cores, 0, nodes / groups);
    parts.insert(parts.end(), static_cast<std::size_t>(blocks), bytes / blocks);
  }
  std::ranges::sort(parts, std::ranges::greater());
  std::vector<double> owned(static_cast<std::size_t>(nodes));
  double all = 0;
  for (const double bytes : parts) {
    *std::ranges::min_element(owned) += bytes;
    all += bytes;
  }
  return std::max(all - std::ranges::min(owned), std::ranges::max(owned) * (nodes - 1));
}

}  // namespace

double NodeForecast::seconds() const {
  const double forward = compute / 3;  // has no gradient to send
  return std::max(merged, (std::max(compute, forward + network) + merged) / groups);
}

std::vector<NodeForecast> forecast_nodes(const NodeCosts& costs, const Machine::Link& link,
                                         std::span<const int> nodes) {
  std::vector<NodeForecast> rows;
  for (const int count : nodes)
    for (int groups = 1; groups <= count && count % groups == 0; groups *= 2) {
      NodeForecast& row = rows.emplace_back(NodeForecast{.nodes = count, .groups = groups});
      row.compute = costs.compute * groups / count;
      row.merged = costs.merged;
      if (count == 1) continue;
      // Gradients go out and new values come back; so do activations and their gradients.
      row.network = 2 * link.seconds_of(busiest(costs, count, groups));
      if (costs.merged > 0) row.merged += 2 * link.seconds_of(costs.activations);
    }
  return rows;
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
