// Seconds per iteration of groups that take turns, from the times when their iterations ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "scheduling/groups/under_way.hpp"

namespace omni {

// Iterations still under way when the last one starts. They are not counted: fewer and fewer run at
// once, so they end faster. With 16 groups on one GPU, 84 iterations would seem 7 % too fast.
inline std::size_t drained(int groups) { return static_cast<std::size_t>(kUnderWay * groups); }

// Leaves out the first third, while groups start, and the drained iterations; needs two others.
// Counts whole rounds of the groups if there is one, since groups may end together.
inline double steady_seconds(std::span<const double> ends, int groups) {
  const std::size_t counted = ends.size() - drained(groups), to = counted - 1;
  std::size_t iterations = to - counted / 3;
  if (const auto round = static_cast<std::size_t>(groups); iterations > round)
    iterations -= iterations % round;
  return (ends[to] - ends[to - iterations]) / static_cast<double>(iterations);
}

}  // namespace omni
