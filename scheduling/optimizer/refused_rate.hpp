// A learning rate that was found too large, with so many compute groups: with more of them it is,
// too, with fewer it need not be.
#pragma once

#include <algorithm>
#include <vector>

namespace omni {

struct RefusedRate {
  int groups = 1;
  double rate = 0;
};

inline bool is_refused(const std::vector<RefusedRate>& refused, int groups, double rate) {
  return std::ranges::any_of(refused, [&](const RefusedRate& each) {
    return each.groups <= groups && rate > 0.99 * each.rate;  // not by rounding
  });
}

// The smallest of each number of groups.
inline void refuse(std::vector<RefusedRate>& refused, int groups, double rate) {
  const auto known = std::ranges::find(refused, groups, &RefusedRate::groups);
  if (known == refused.end())
    refused.push_back({groups, rate});
  else
    known->rate = std::min(known->rate, rate);
}

}  // namespace omni
