#include "scheduling/model/node_forecast.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
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

// Bytes that a node sends or receives one way: the busiest one, of gradients that go to their
// owners; each, of inputs and outputs of layers whose neurons are divided. And messages of all
// kinds, both ways.
struct Bytes {
  double gradients = 0, inputs = 0, outputs = 0;
  double messages = 0;
};

void add_parts(const NodeCosts& costs, const NodeCosts::Parameters& of, int sharers, bool divides,
               std::vector<double>& parts, Bytes& bytes) {
  parts.insert(parts.end(), of.parts.begin(), of.parts.end());
  for (const auto& [inputs, outputs] : of.connected) {
    const ConnectedShares shares{.inputs = inputs,
                                 .outputs = outputs,
                                 .images = costs.images,
                                 .cores = costs.cores,
                                 .ranks = sharers};
    const ConnectedBlocks blocks =
        divides ? divide_neurons(shares) : choose_connected_blocks(shares, 1);
    if (blocks.per_rank > 0) {
      // The inputs of all images arrive where neurons are computed; each image's outputs return.
      const double sent = 4.0 * costs.images * (sharers - 1) / sharers;
      bytes.inputs += sent * inputs;
      bytes.outputs += sent * std::min(outputs, blocks.width * blocks.per_rank);
      bytes.messages += 4.0 * (sharers - 1) * costs.cores;  // of a slice for each core
      continue;
    }
    for (int first = 0; first < outputs; first += blocks.width)
      parts.push_back(4.0 * inputs * std::min(blocks.width, outputs - first));
  }
}

// How many ranks exchange the statistics of batch normalisation, level by level.
std::vector<int> levels_of_statistics(int sharers) {
  std::vector<int> levels{ranks_in_a_row(sharers), sharers / ranks_in_a_row(sharers)};
  std::erase(levels, 1);
  return levels;
}

Bytes sent_bytes(const NodeCosts& costs, int nodes, int groups) {
  Bytes bytes;
  std::vector<double> parts;
  add_parts(costs, costs.replicated, nodes / groups, groups == 1, parts, bytes);
  if (groups == 1)
    add_parts(costs, costs.of_merged, nodes, true, parts, bytes);
  else
    parts.insert(parts.end(), costs.scales.begin(), costs.scales.end());
  const auto values_of = [](double of_bytes) { return static_cast<std::size_t>(of_bytes / 4); };
  const double all = std::accumulate(parts.begin(), parts.end(), 0.0);
  std::vector<double> pieces;
  for (double left : parts) {
    const auto piece =
        4 * static_cast<double>(piece_values(values_of(left), values_of(all), nodes));
    for (; left > 0; left -= piece) pieces.push_back(std::min(left, piece));
  }
  std::ranges::sort(pieces, std::ranges::greater());
  std::vector<double> owned(static_cast<std::size_t>(nodes));
  for (const double piece : pieces) *std::ranges::min_element(owned) += piece;
  bytes.messages += 2 * static_cast<double>(pieces.size()) * (nodes - 1) / nodes;
  for (const int ranks : levels_of_statistics(nodes / groups))
    bytes.messages +=
        4.0 * costs.passes * static_cast<double>(costs.statistics.size()) * (ranks - 1);
  bytes.gradients = std::max(all - std::ranges::min(owned), std::ranges::max(owned) * (nodes - 1));
  return bytes;
}

// One way. Nodes wait for each layer's: nothing else can be computed meanwhile. The latency has the
// work for one message.
double seconds_of_statistics(const NodeCosts& costs, const Machine::Link& link, int sharers) {
  double seconds = 0;
  for (const int ranks : levels_of_statistics(sharers))
    for (const double bytes : costs.statistics)
      seconds += link.seconds + (ranks - 1) * bytes / link.bytes_per_second +
                 (ranks - 2) * link.work_per_message;
  return costs.passes * seconds;
}

}  // namespace

double NodeForecast::seconds() const {
  const double forward = compute / 3;  // has no gradient to send
  return std::max(
      merged, (std::max(compute, forward + network) + activations + statistics + merged) / groups);
}

std::vector<NodeForecast> forecast_nodes(const NodeCosts& costs, const Machine::Link& link,
                                         std::span<const int> nodes) {
  std::vector<NodeForecast> rows;
  for (const int count : nodes)
    for (int groups = 1; groups <= count && count % groups == 0; groups *= 2) {
      NodeForecast& row = rows.emplace_back(NodeForecast{.nodes = count, .groups = groups});
      row.compute = costs.compute * groups / count;
      (groups == 1 ? row.compute : row.merged) += costs.merged / (groups == 1 ? count : 1);
      if (count == 1) continue;
      // Gradients go out and new values come back; so do activations and their gradients.
      const Bytes bytes = sent_bytes(costs, count, groups);
      const double bytes_of_all = 2 * (bytes.gradients + bytes.inputs + bytes.outputs);
      row.compute += (link.work_per_message * bytes.messages + link.work_per_byte * bytes_of_all) /
                     costs.cores;
      row.network = 2 * link.seconds_of(bytes.gradients);
      if (bytes.inputs > 0)
        row.activations = 2 * (link.seconds_of(bytes.inputs) + link.seconds_of(bytes.outputs));
      row.statistics = 2 * seconds_of_statistics(costs, link, count / groups);
      if (row.merged > 0) row.merged += 2 * link.seconds_of(costs.activations);
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
