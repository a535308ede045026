// Figures that a few odd tasks do not move: median and median absolute deviation.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace omni::perf {

struct Spread {
  std::size_t count = 0;
  double total = 0, mean = 0, median = 0, min = 0, max = 0;
  double mad = 0;  // median of |value - median|
  // The median's standard error, as if the values were normally distributed: 1.2533 * 1.4826 * mad
  // / sqrt(count).
  double standard_error() const {
    return count > 0 ? 1.2533 * 1.4826 * mad / std::sqrt(static_cast<double>(count)) : 0;
  }
};

// All zero without values.
Spread spread_of(std::vector<double> values);

// Requires at least one value; values may be infinite.
double median_of(std::vector<double> values);

// part / whole, 0 when there is no whole.
constexpr double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace omni::perf
