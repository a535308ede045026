#include "perf/common/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace omni::perf {

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Spread spread_of(std::vector<double> values) {
  Spread spread;
  if (values.empty()) return spread;
  spread.count = values.size();
  spread.total = std::accumulate(values.begin(), values.end(), 0.0);
  spread.mean = spread.total / static_cast<double>(values.size());
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  spread.min = *min;
  spread.max = *max;
  spread.median = median_of(values);
  for (double& value : values) value = std::abs(value - spread.median);
  spread.mad = median_of(values);
  return spread;
}

}  // namespace omni::perf
