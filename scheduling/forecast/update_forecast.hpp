// forecast_updates() simulates on a virtual clock how long the updates of a training take.
#pragma once

#include "scheduling/forecast/virtual_clock.hpp"

namespace omni {

struct UpdateForecast {
  double seconds = 0;  // s from one update to the next
  // `busiest` names the resource that is busy for the largest share of the time; `share` is this
  // share.
  const char* busiest = "";
  double share = 0;
};

// Simulates groups that all take mini-batches of `samples` samples and average their models as
// `meetings` says. The clock must be new.
UpdateForecast forecast_updates(VirtualClock& clock, const Meetings& meetings,
                                std::uint64_t samples);

}  // namespace omni
