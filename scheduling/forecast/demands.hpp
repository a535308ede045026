// Demands are what the groups of a training need from links. They tell which place owns how many
// parameters, and how much a mini-batch sends. Devices that share a mini-batch sum gradients piece
// by piece, as RankSums does.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduling/forecast/machine/group_devices.hpp"
#include "scheduling/forecast/net_costs.hpp"

namespace omni {

// A place is a node or a GPU with a link of its own. All cores of a machine are one place, which
// needs no link.
struct Places {
  std::vector<std::size_t> of_device{};
  std::size_t count = 0;
  bool has_cores = false;  // true: the cores are place 0
};
Places places_of(const Machine& machine);

struct Demands {
  Places places{};
  std::vector<double> owned{};  // bytes of the parameters that groups exchange, by owning place
  double parameters = 0;        // bytes of all of these
  double piece = 0;             // mean bytes of a message with parameters
  double activations = 0;  // bytes that a mini-batch sends to the merged layers; as many return

  struct Group {
    std::vector<std::size_t> places{};
    // In forward and in backward, devices wait for values of other devices. `values` are the bytes
    // each way on each link. `value_seconds` and `statistics_seconds` are the delays for these
    // values and for statistics.
    double values = 0, value_seconds = 0, statistics_seconds = 0;
    // Sending messages costs each device `work` seconds for any mini-batch. It costs
    // `exchange_work` seconds more if the device sends parameters.
    double work = 0, exchange_work = 0;
  };
  std::vector<Group> groups{};
};
Demands demands_of(const NetCosts& costs, const Machine& machine, const GroupDevices& placement);

}  // namespace omni
