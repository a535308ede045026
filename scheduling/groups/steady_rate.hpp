// How long iterations of compute groups take, from a run that has an end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "scheduling/groups/group_run.hpp"

namespace omni {

// Iterations that are under way when the last one begins. They end one soon after the other, with
// less and less beside them: counted, 16 groups would seem 7 % faster than they are in 84
// iterations.
inline std::size_t drained(int groups) {
  return static_cast<std::size_t>(GroupRun::kUnderWay * groups);
}

// Seconds per iteration from when iterations ended: without the first third of them, while groups
// start, and without those at the end. There are two or more.
inline double steady_seconds(std::span<const double> ends, int groups) {
  const std::size_t first = ends.size() / 3, last = ends.size() - 1;
  const std::size_t to = std::max(first + 1, last - std::min(last, drained(groups)));
  return (ends[to] - ends[first]) / static_cast<double>(to - first);
}

}  // namespace omni
