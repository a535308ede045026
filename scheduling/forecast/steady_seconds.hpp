// steady_seconds() computes the seconds per iteration of several groups, from the times when
// iterations ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "scheduling/groups/under_way.hpp"

namespace omni {

// Returns the number of last iterations that are not counted: those under way when the last one
// starts. Fewer and fewer run at once then, and each ends faster. With 16 groups on one GPU, 84
// iterations would seem 7 % too fast.
inline std::size_t drained(int groups) { return static_cast<std::size_t>(kUnderWay * groups); }

// Returns the steady seconds per iteration. It leaves out the first third of the iterations, in
// which groups start, and the last ones (drained()). It needs two other iterations. It counts whole
// rounds of the groups if possible, since groups may end together.
inline double steady_seconds(std::span<const double> ends, int groups) {
  const std::size_t counted = ends.size() - drained(groups), to = counted - 1;
  std::size_t iterations = to - counted / 3;
  if (const auto round = static_cast<std::size_t>(groups); iterations > round)
    iterations -= iterations % round;
  return (ends[to] - ends[to - iterations]) / static_cast<double>(iterations);
}

}  // namespace omni
