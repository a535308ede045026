// This header writes the result of `omni-run ensemble --plan`: flotillas with their members,
// devices, rates and times. It also writes how long all members at once, and one after the other,
// would take.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "scheduling/forecast/fleet/fleet.hpp"

namespace omni {

// Returns the plan as a table. `names` are the names of the members.
Result<std::string> fleet_table(const Fleet& fleet, const FleetPlan& plan,
                                std::span<const std::string> names);
Result<nlohmann::ordered_json> fleet_json(const Fleet& fleet, const FleetPlan& plan,
                                          std::span<const std::string> names);

}  // namespace omni
