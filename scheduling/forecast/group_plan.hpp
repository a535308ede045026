// Predicted time per iteration and number of updates for each number of compute groups on this
// machine, and the best number. And how many groups still make iterations faster.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "runtime/result.hpp"
#include "scheduling/forecast/iteration_model.hpp"
#include "scheduling/forecast/node_forecast.hpp"
#include "scheduling/groups/group_layout.hpp"
#include "scheduling/groups/momentum.hpp"

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

struct GroupPlan {
  struct Row {
    int groups;
    int images_per_slice = 0;
    GroupLayout layout{};
    double predicted = 0;            // s per iteration
    double task_overhead = 0;        // s, in that prediction
    IterationWork work{};            // that it is made of, measured
    std::vector<double> measured{};  // s, in every round, see plan_groups()
    Momentum momentum{};
    double penalty = 1;  // of statistical efficiency: updates needed, relative to one group
    std::optional<double> penalty_error{};  // where it was measured; else it is the theory's

    // The time of a whole training, to be compared with that of other rows.
    double total() const { return predicted * penalty; }
    std::optional<double> median_measured() const;
  };
  std::vector<Row> rows;  // by planned_groups()
  NodeCosts node{};       // of this machine as one of several

  int saturating_groups() const;
  // The row with the smallest total. Among equal ones, the one with the fewest groups. Equal:
  // within the errors of measured penalties; if a penalty is the theory's, within a factor of 1.3.
  const Row& best() const;
};

// The numbers to plan for: 1, 2, 4 ... and the largest.
std::vector<int> planned_groups(int most);

}  // namespace omni
