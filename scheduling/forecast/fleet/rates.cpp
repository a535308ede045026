#include "scheduling/forecast/fleet/rates.hpp"

#include <utility>

#include "scheduling/forecast/update_forecast.hpp"

namespace omni {

Machine devices_like_first(const Machine& machine) {
  Machine alike{.name = machine.name, .link = machine.link};
  for (Machine::Device device : machine.devices) {
    device.serves_merged = false;  // one group has no merged layers
    if (alike.devices.empty() || device == alike.devices.front())
      alike.devices.push_back(std::move(device));
  }
  return alike;
}

std::vector<double> synchronous_rates(const Machine& machine, const NetCosts& costs) {
  Machine part{.name = machine.name, .link = machine.link};
  std::vector<double> rates;
  for (const Machine::Device& device : machine.devices) {
    part.devices.push_back(device);
    VirtualClock clock(part, place_on(part, 1, false), costs, 1);
    const auto samples = static_cast<std::uint64_t>(costs.images);
    rates.push_back(costs.images / forecast_updates(clock, {}, samples).seconds);
  }
  return rates;
}

}  // namespace omni
