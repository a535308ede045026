// The table of `omni-run ensemble --plan`: flotillas with their members, devices, rates and times.
#pragma once

#include <span>
#include <string>

#include "scheduling/forecast/fleet/fleet.hpp"

namespace omni {

// `names`: of the members. The last lines compare the plan with the two usual ways.
Result<std::string> fleet_table(const Fleet& fleet, const FleetPlan& plan,
                                std::span<const std::string> names);

}  // namespace omni
