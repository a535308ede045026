// Decimal forms of floats in texts whose numbers are doubles.
#pragma once

#include <fmt/format.h>

#include <string>

namespace omni {

// The double nearest to the decimal number that the float was read from, or would be written as:
// 0.1, not 0.10000000149011612.
inline double shortest_decimal(float value) { return std::stod(fmt::format("{}", value)); }

// For JSON that people read: a mean of floats with the digits of a float.
inline double shown_single(double value) { return shortest_decimal(static_cast<float>(value)); }

}  // namespace omni
