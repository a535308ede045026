// A connection from every other rank to the first one, over which nothing is said. The kernel
// closes it when a process ends, however it ends: so a killed rank is known at once. Where none
// comes about, a killed rank is silent until the patience ends.
#pragma once

#include <functional>

namespace omni::ranks {

// Collective. Threads of their own, to the end of the process, call `gone` with the rank that
// ended.
void hold_lifelines(std::function<void(int rank)> gone);

}  // namespace omni::ranks
