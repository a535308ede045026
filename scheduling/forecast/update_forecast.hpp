// How long updates take: simulated on a virtual clock.
#pragma once

#include "scheduling/forecast/virtual_clock.hpp"

namespace omni {

struct UpdateForecast {
  double seconds = 0;  // from one update to the next
  // What is busy for most of the time, and for which share.
  const char* busiest = "";
  double share = 0;
};

// Of groups that all take mini-batches of so many samples, and meet like this. On a new clock.
UpdateForecast forecast_updates(VirtualClock& clock, const Meetings& meetings,
                                std::uint64_t samples);

}  // namespace omni
