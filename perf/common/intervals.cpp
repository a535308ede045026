#include "perf/common/intervals.hpp"

#include <algorithm>
#include <cstddef>

namespace omni::perf {

std::vector<Interval> united(std::vector<Interval> intervals) {
  std::erase_if(intervals, [](const Interval& i) { return i.from >= i.to; });
  std::ranges::sort(intervals, {}, &Interval::from);
  std::size_t last = 0;  // the last interval of the set, which grows in place
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
