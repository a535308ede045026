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

std::vector<Interval> united(std::vector<Interval> intervals) {
  std::erase_if(intervals, [](const Interval& i) { return i.from >= i.to; });
  std::ranges::sort(intervals, {}, &Interval::from);
  std::size_t last = 0;  // of the set, which grows in place
  for (std::size_t i = 1; i < intervals.size(); ++i) {
    if (intervals[i].from <= intervals[last].to)
      intervals[last].to = std::max(intervals[last].to, intervals[i].to);
    else
      intervals[++last] = intervals[i];
  }
  if (!intervals.empty()) intervals.resize(last + 1);
  return intervals;
}

Nanoseconds length_of(const std::vector<Interval>& set) {
  Nanoseconds length = 0;
  for (const Interval& interval : set) length += interval.to - interval.from;
  return length;
}

Nanoseconds common_length(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  Nanoseconds length = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    length += std::max<Nanoseconds>(0, std::min(a[i].to, b[j].to) - std::max(a[i].from, b[j].from));
    if (a[i].to < b[j].to)
      ++i;
    else
      ++j;
  }
  return length;
}

}  // namespace omni::perf
