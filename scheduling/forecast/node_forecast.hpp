// How long an iteration is predicted to take on several nodes that are alike, by every strategy.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"
#include "scheduling/forecast/update_forecast.hpp"

namespace omni {

// Of one node, in which a net takes so long for a mini-batch.
struct NodeCosts {
  NetCosts net{};
  double seconds = 0;
  int cores = 1;
};

// "32+1": 32 nodes, and one that serves merged layers where groups merge them.
struct NodeCount {
  int computing = 1;
  bool server = false;
  int all() const { return computing + (server ? 1 : 0); }
};
Result<NodeCount> parse_node_count(const std::string& text);

struct NodeForecast {
  NodeCount nodes{};
  int groups = 1;
  std::string strategies{};  // that take as long
  // s of one group's mini-batch, if nothing else is busy. Nodes wait for activations and
  // statistics.
  double compute = 0, network = 0, activations = 0, statistics = 0, merged = 0;
  UpdateForecast update{};
};

// For 1, 2, 4 ... groups, while these divide the nodes that compute, and for one on each. Groups
// of asynchronous strategies share the merged layers of `costs`, if it has any.
std::vector<NodeForecast> forecast_nodes(const NodeCosts& costs, const Machine::Link& link,
                                         std::span<const NodeCount> nodes);
// The row with the most updates per second. Requires one.
const NodeForecast& fastest(std::span<const NodeForecast> rows);

// "1gbit:50us": the rate, in kbit, mbit or gbit per second, and the latency, in us, ms or s.
Result<Machine::Link> parse_link(const std::string& text);

}  // namespace omni
