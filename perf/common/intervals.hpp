// Sets of instants as sorted intervals that neither overlap nor touch.
#pragma once

#include <vector>

#include "perf/trace/trace.hpp"

namespace omni::perf {

struct Interval {
  Nanoseconds from = 0, to = 0;
};

// Any intervals, in any order, to a set; empty ones vanish.
std::vector<Interval> united(std::vector<Interval> intervals);

Nanoseconds length_of(const std::vector<Interval>& set);

Nanoseconds common_length(const std::vector<Interval>& a, const std::vector<Interval>& b);

}  // namespace omni::perf
