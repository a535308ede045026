// A Spread has figures of a list of values. Among them are the median and the median absolute
// deviation, because a few odd tasks do not move these.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace omni::perf {

struct Spread {
  std::size_t count = 0;
  double total = 0, mean = 0, median = 0, min = 0, max = 0;
  double mad = 0;  // median of |value - median|
  // Returns the standard error of the median, if the values are normally distributed. It is 1.2533
  // times that of the mean, where 1.4826 * mad estimates the standard deviation.
  double standard_error() const {
    return count > 0 ? 1.2533 * 1.4826 * mad / std::sqrt(static_cast<double>(count)) : 0;
  }
};

// Returns the spread of the values. If there are none, all figures are 0.
Spread spread_of(std::vector<double> values);

// Returns the median. `values` holds at least one value; values may be infinite.
double median_of(std::vector<double> values);

inline constexpr double kNever = std::numeric_limits<double>::infinity();  // seconds

// Returns 0 if the whole is 0.
constexpr double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace omni::perf
