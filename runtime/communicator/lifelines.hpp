// Lifelines are connections between ranks by which the end of a process is noticed at once.
#pragma once

#include <functional>

namespace omni::ranks {

// Opens a connection (a "lifeline") from every other rank to the first one. The kernel closes it
// when a process ends in any way, so a killed rank is noticed at once. Without a connection a
// killed rank is noticed only when the patience ends.
//
// Collective. A thread calls `gone` with the rank that has ended.
void hold_lifelines(const std::function<void(int rank)>& gone);

}  // namespace omni::ranks
