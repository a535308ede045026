// forecast_updates() simulates on a virtual clock how long updates take.
#pragma once

#include "scheduling/forecast/virtual_clock.hpp"

namespace omni {

struct UpdateForecast {
  double seconds = 0;  // s from one update to the next
  // `busiest` is the resource that is busy most of the time, and `share` its share of the time.
  const char* busiest = "";
  double share = 0;
};

// Simulates groups that all take mini-batches of `samples` and meet as `meetings` says. The clock
// must be new.
UpdateForecast forecast_updates(VirtualClock& clock, const Meetings& meetings,
                                std::uint64_t samples);

}  // namespace omni
