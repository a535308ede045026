// What groups demand of links: who owns which parameters, and what a mini-batch sends. Devices that
// share a mini-batch sum gradients in pieces, as RankSums does.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduling/forecast/machine/group_devices.hpp"
#include "scheduling/forecast/net_costs.hpp"

namespace omni {

// A place has a link of its own: a node, or a GPU. All cores are one, which needs none.
struct Places {
  std::vector<std::size_t> of_device{};
  std::size_t count = 0;
  bool has_cores = false;  // then they are place 0
};
Places places_of(const Machine& machine);

struct Demands {
  Places places{};
  std::vector<double> owned{};  // bytes of the parameters that groups exchange, by place
  double parameters = 0;        // of all
  double piece = 0;             // bytes of one message of them, about
  double activations = 0;       // bytes of a mini-batch to the merged layers; as many return

  struct Group {
    std::vector<std::size_t> places{};
    // In either pass its devices wait for each other's values: so many bytes each way on each link,
    // and other delays; the latter have two parts.
    double values = 0, value_seconds = 0, statistics_seconds = 0;
    // s of each device, for messages: of any mini-batch, and of one that sends parameters.
    double work = 0, exchange_work = 0;
  };
  std::vector<Group> groups{};
};
Demands demands_of(const NetCosts& costs, const Machine& machine, const GroupDevices& placement);

}  // namespace omni
