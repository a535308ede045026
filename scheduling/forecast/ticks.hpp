// Simulated times are whole multiples of 2^-30 s, so that their sums are exact.
#pragma once

#include <cmath>

namespace omni {

inline constexpr double kTick = 0x1p-30;  // s

inline double in_ticks(double seconds) { return std::round(seconds / kTick) * kTick; }

}  // namespace omni
