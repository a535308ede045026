// These functions predict how many samples per second a net trains on some of a machine's devices.
#pragma once

#include <vector>

#include "scheduling/forecast/machine/machine.hpp"
#include "scheduling/forecast/net_costs.hpp"

namespace omni {

// Returns the machine with only those devices that equal the first one in everything but
// serves_merged, which becomes false.
Machine devices_like_first(const Machine& machine);

// Returns how many samples per second one group trains on 1, 2 ... all devices. The group divides
// each mini-batch among its devices.
std::vector<double> synchronous_rates(const Machine& machine, const NetCosts& costs);

}  // namespace omni
