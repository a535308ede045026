// This header has sets of instants: sorted intervals of time that neither overlap nor touch.
#pragma once

#include <vector>

#include "perf/trace/trace.hpp"

namespace omni::perf {

struct Interval {
  Nanoseconds from = 0, to = 0;
};

// Returns the union of the intervals, which may overlap and be in any order.
std::vector<Interval> united(std::vector<Interval> intervals);

Nanoseconds length_of(const std::vector<Interval>& set);

// Returns the length of the intersection of both sets.
Nanoseconds common_length(const std::vector<Interval>& a, const std::vector<Interval>& b);

}  // namespace omni::perf
