// How long iterations of compute groups take, from a run that has an end.
#pragma once

#include <cstddef>
#include <span>

#include "scheduling/groups/group_run.hpp"

namespace omni {

// As many iterations may be under way when the last one begins. They end one soon after the other,
// with less and less beside them: counted, 16 groups on one GPU seem 7 % faster in 84 iterations
// than the GPU can be.
inline std::size_t drained(int groups) {
  return static_cast<std::size_t>(GroupRun::kUnderWay * groups);
}

// Seconds per iteration from when iterations ended, of which there are two or more besides the
// drained ones, which do not count. Neither does the first third, while groups start. Whole rounds
// of the groups where there is one: they may end together.
inline double steady_seconds(std::span<const double> ends, int groups) {
  const std::size_t counted = ends.size() - drained(groups), to = counted - 1;
  std::size_t iterations = to - counted / 3;
  if (const auto round = static_cast<std::size_t>(groups); iterations > round)
    iterations -= iterations % round;
  return (ends[to] - ends[to - iterations]) / static_cast<double>(iterations);
}

}  // namespace omni
