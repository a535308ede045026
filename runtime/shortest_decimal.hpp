// Numbers that are kept as float, and written where only double is known.
#pragma once

namespace omni {

// The double nearest to the decimal number that the float was read from, or would be written as:
// 0.1, not 0.10000000149011612.
double shortest_decimal(float value);

}  // namespace omni
