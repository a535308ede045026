// How many compute groups still make iterations faster.
#pragma once

#include <functional>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

// The next number of groups must be that much faster to be worth its staleness.
inline constexpr double kWorthMoreGroups = 1.1;

// The number of groups beyond which an iteration takes hardly less time.
struct Saturation {
  struct Timing {
    int groups;
    double seconds;  // per iteration
  };
  int groups = 1;
  std::vector<Timing> timings;  // ascending; beyond the first that is not worth it, none
};

inline Result<Saturation> smallest_saturating(int most,
                                              const std::function<Result<double>(int)>& seconds) {
  Saturation saturation;
  OMNI_TRY(double best, seconds(1));
  saturation.timings.push_back({1, best});
  while (saturation.groups < most) {
    const int groups = std::min(2 * saturation.groups, most);
    OMNI_TRY(const double time, seconds(groups));
    saturation.timings.push_back({groups, time});
    if (time > best / kWorthMoreGroups) break;
    saturation.groups = groups;
    best = time;
  }
  return saturation;
}

}  // namespace omni
