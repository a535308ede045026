// first_of_share() divides things in a fixed order, such as the images of a mini-batch, among
// sharers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace omni {

// Returns the first of the things that a sharer gets, or `all` for the number `sharers`. The shares
// are in proportion to the weights, which are at least 1; without weights they differ by at most
// one. If there are enough things, every sharer gets one or more.
inline int first_of_share(int sharer, int sharers, int all, const std::vector<int>& weights = {}) {
  if (weights.empty() || all < sharers)
    return static_cast<int>(std::int64_t{all} * sharer / sharers);
  const auto total = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
  std::int64_t first = 0, before = 0;
  for (int lower = 0; lower < sharer; ++lower) {
    before += weights[static_cast<std::size_t>(lower)];
    first = std::max(first + 1, (2 * all * before + total) / (2 * total));  // rounded
  }
  return static_cast<int>(std::min<std::int64_t>(first, all - (sharers - sharer)));
}

}  // namespace omni
