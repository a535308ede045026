// How long an iteration is predicted to take on several nodes that are alike: computing, the
// network and the merged phase apart. Groups of as many nodes each share a mini-batch; the groups
// are asynchronous. Nodes own parts of the parameters as RankSums deals them out.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "scheduling/arrivals/machine_file.hpp"

namespace omni {

// What a mini-batch costs on one node.
struct NodeCosts {
  struct Connected {
    int inputs, outputs;
  };
  struct Parameters {
    std::vector<double> parts{};         // bytes; each has one owner
    std::vector<Connected> connected{};  // layers that nodes cut or divide if they are large
  };
  double compute = 0, merged = 0;        // s, of the replicated and of the merged phase
  Parameters replicated{}, of_merged{};  // one group merges nothing
  int images = 1, cores = 1;
  double activations = 0;  // bytes that the replicated phase sends to the merged one
  // Of batch normalisation in layers that learn and are not merged: what ranks that share a
  // mini-batch send each other, bytes of each layer, in so many passes of an iteration.
  std::vector<double> statistics{};
  int passes = 1;
  std::vector<double> scales{};  // bytes of parameters that only travel between groups
};

struct NodeForecast {
  int nodes = 1, groups = 1;
  double compute = 0, network = 0, merged = 0;  // s of one group's mini-batch
  double activations = 0, statistics = 0;       // s: nodes wait for these
  // The network is busy from a group's backward pass. The merged phase serves group after group.
  double seconds() const;  // per iteration
};

// For each number of nodes: a forecast for 1, 2, 4 ... groups, while these divide the nodes.
std::vector<NodeForecast> forecast_nodes(const NodeCosts& costs, const Machine::Link& link,
                                         std::span<const int> nodes);

// "1gbit:50us": the rate, in kbit, mbit or gbit per second, and the latency, in us, ms or s.
Result<Machine::Link> parse_link(const std::string& text);

}  // namespace omni
