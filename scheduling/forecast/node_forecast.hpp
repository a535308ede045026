// These functions predict the time of an iteration on several nodes, for every strategy.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"
#include "scheduling/forecast/update_forecast.hpp"

namespace omni {

// NodeCosts are the costs of a mini-batch on one node.
struct NodeCosts {
  NetCosts net{};
  double seconds = 0;  // s per mini-batch
  int cores = 1;
  // Speeds of the nodes, relative to this one. The last speed is also that of all further nodes.
  // Empty: all are equally fast.
  std::vector<double> speeds{};
};
// Parses speeds of nodes, as "1:1:0.5".
Result<std::vector<double>> parse_speeds(const std::string& text);

// A NodeCount is a number of nodes. "32+1" means 32 nodes, and one that computes the merged layers,
// if there are any.
struct NodeCount {
  int computing = 1;
  bool server = false;
  int all() const { return computing + (server ? 1 : 0); }
};
Result<NodeCount> parse_node_count(const std::string& text);

struct NodeForecast {
  NodeCount nodes{};
  int groups = 1;
  std::string strategies{};  // the strategies for which the forecast holds
  // `compute`, `network` ... `merged` are the seconds of one group's mini-batch if no other group
  // uses nodes and links. While nodes wait for activations and statistics, they compute nothing.
  double compute = 0, network = 0, activations = 0, statistics = 0, merged = 0;
  UpdateForecast update{};
  // Seconds of an update if unlike nodes had equal shares; none: nodes are alike, or share nothing.
  std::optional<double> with_equal_shares{};
};

// Returns forecasts for 1, 2, 4 ... groups, as long as these divide the computing nodes, and for
// one group on each node. Groups that train one model share the merged layers, if there are any.
std::vector<NodeForecast> forecast_nodes(const NodeCosts& costs, const Machine::Link& link,
                                         std::span<const NodeCount> nodes);
// Returns the row with the most updates per second. There must be at least one row.
const NodeForecast& fastest(std::span<const NodeForecast> rows);

// Parses "1gbit:50us": the rate in kbit, mbit or gbit per second, and the latency in us, ms or s.
// Without a latency, as in "1gbit", it is 0.
Result<Machine::Link> parse_link(const std::string& text);

}  // namespace omni
