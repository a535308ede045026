// The cost model predicts at which rates nets train on some devices of a machine.
#pragma once

#include <vector>

#include "scheduling/forecast/machine/machine.hpp"
#include "scheduling/forecast/net_costs.hpp"

namespace omni {

// Returns the machine with only those devices that are like the first one.
Machine devices_like_first(const Machine& machine);

// Returns for 1, 2 ... all devices how many samples per second one group trains, which divides
// each mini-batch among them.
std::vector<double> synchronous_rates(const Machine& machine, const NetCosts& costs);

}  // namespace omni
