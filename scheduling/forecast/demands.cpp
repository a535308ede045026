#include "scheduling/forecast/demands.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "layers/slice_choice.hpp"

namespace omni {
namespace {

// Sharers are the devices of one group, each in a place (Places) of its own.
struct Sharers {
  int count, cores;
  bool alone;  // the machine has no other group
};

// Adds the demands of the layers. Sharers that divide a layer's neurons send activations. The
// parameters of all other layers are added to `parts`, whose owners are chosen later.
void add_parts(const NetCosts& costs, const NetCosts::Parameters& of, const Sharers& sharers,
               std::vector<double>& parts, Demands::Group& group, double& messages) {
  parts.insert(parts.end(), of.parts.begin(), of.parts.end());
  for (const auto& [inputs, outputs] : of.connected) {
    const ConnectedShares shares{.inputs = inputs,
                                 .outputs = outputs,
                                 .images = costs.images,
                                 .cores = sharers.cores,
                                 .ranks = sharers.count};
    const ConnectedBlocks blocks =
        sharers.alone ? divide_neurons(shares) : choose_connected_blocks(shares, 1);
    if (blocks.per_rank > 0) {
      // The inputs of all images arrive where neurons are computed; each image's outputs return.
      const double sent = 4.0 * costs.images * (sharers.count - 1) / sharers.count;
      group.values += sent * (inputs + std::min(outputs, blocks.width * blocks.per_rank));
      messages += 4.0 * (sharers.count - 1) * sharers.cores;  // each core sends a slice
      continue;
    }
    for (int first = 0; first < outputs; first += blocks.width)
      parts.push_back(4.0 * inputs * std::min(blocks.width, outputs - first));
  }
}

std::vector<double> pieces_of(const std::vector<double>& parts, double all, int places) {
  const auto values_of = [](double bytes) { return static_cast<std::size_t>(bytes / 4); };
  std::vector<double> pieces;
  for (double left : parts) {
    const auto piece =
        4 * static_cast<double>(piece_values(values_of(left), values_of(all), places));
    for (; left > 0; left -= piece) pieces.push_back(std::min(left, piece));
  }
  std::ranges::sort(pieces, std::ranges::greater());
  return pieces;
}

// Returns how many ranks exchange statistics of batch normalisation with each other: first in a row
// of the grid of ranks, then in a column. Lengths of 1 are left out.
std::vector<int> levels_of_statistics(int sharers) {
  std::vector<int> levels{ranks_in_a_row(sharers), sharers / ranks_in_a_row(sharers)};
  std::erase(levels, 1);
  return levels;
}

// Adds the delays and messages of statistics of batch normalisation. Devices wait for the
// statistics of each layer, and compute nothing meanwhile. The link's latency includes the work for
// one message.
void add_statistics(const NetCosts& costs, const Machine::Link& link, int sharers,
                    Demands::Group& group, double& messages) {
  for (const int count : levels_of_statistics(sharers)) {
    for (const double bytes : costs.statistics)
      group.statistics_seconds += costs.passes * (link.seconds_of((count - 1) * bytes) +
                                                  (count - 2) * link.work_per_message);
    messages += 4.0 * costs.passes * static_cast<double>(costs.statistics.size()) * (count - 1);
  }
}

}  // namespace

Places places_of(const Machine& machine) {
  Places places;
  places.has_cores =
      std::ranges::count(machine.devices, Machine::Kind::cpu, &Machine::Device::kind);
  places.count = places.has_cores ? 1 : 0;
  for (const Machine::Device& device : machine.devices)
    places.of_device.push_back(device.kind == Machine::Kind::cpu ? 0 : places.count++);
  return places;
}

Demands demands_of(const NetCosts& costs, const Machine& machine, const GroupDevices& placement) {
  Demands demands{.places = places_of(machine)};
  const std::size_t count = demands.places.count;
  const bool one = placement.devices.size() == 1, merges = placement.server.has_value();
  demands.owned.resize(count);
  demands.activations = merges ? costs.activations : 0;
  std::vector<double> parts;  // bytes, alike for all groups
  double pieces = 0;
  for (const std::vector<std::size_t>& devices : placement.devices) {
    Demands::Group& group = demands.groups.emplace_back();
    for (const std::size_t device : devices)
      group.places.push_back(demands.places.of_device[device]);
    std::ranges::sort(group.places);
    group.places.erase(std::unique(group.places.begin(), group.places.end()), group.places.end());
    if (count == 1) continue;
    const Sharers sharers{static_cast<int>(group.places.size()),
                          machine.devices[devices.front()].cores, one};
    double messages = 0;
    parts.clear();
    add_parts(costs, costs.replicated, sharers, parts, group, messages);
    if (!merges) add_parts(costs, costs.merged, sharers, parts, group, messages);
    if (!one) parts.insert(parts.end(), costs.scales.begin(), costs.scales.end());
    if (group.values > 0) group.value_seconds = 2 * machine.link.seconds;
    add_statistics(costs, machine.link, sharers.count, group, messages);
    if (demands.groups.size() == 1) {
      const auto all = pieces_of(parts, std::accumulate(parts.begin(), parts.end(), 0.0),
                                 static_cast<int>(count));
      pieces = static_cast<double>(all.size());
      for (const double piece : all) {
        const auto values = static_cast<std::size_t>(piece / sizeof(float));
        const double sent =
            costs.send.codes(values) ? static_cast<double>(costs.send.bytes(values)) : piece;
        demands.parameters += sent;
        (demands.places.has_cores ? demands.owned.front()
                                  : *std::ranges::min_element(demands.owned)) += sent;
      }
      if (pieces > 0) demands.piece = demands.parameters / pieces;
    }
    const Machine::Link& link = machine.link;
    group.work =
        (link.work_per_message * messages + link.work_per_byte * 2 * group.values) / sharers.cores;
    // The busiest device determines the work. Gradients are sent to the owners of parameters, and
    // values back.
    const auto others = static_cast<double>(count - 1);
    const auto [least, most] = std::ranges::minmax(demands.owned);
    group.exchange_work =
        2 *
        (link.work_per_message * pieces * others / static_cast<double>(count) +
         link.work_per_byte * std::max(demands.parameters - least, most * others)) /
        sharers.cores;
  }
  return demands;
}

}  // namespace omni
