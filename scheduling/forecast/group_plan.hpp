// A GroupPlan compares numbers of compute groups. Each has a row with the predicted time per
// iteration and the relative number of updates. A Saturation has the largest number of groups up to
// which iterations get clearly faster.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/result.hpp"
#include "scheduling/forecast/iteration_model.hpp"
#include "scheduling/forecast/node_forecast.hpp"
#include "scheduling/groups/group_layout.hpp"
#include "scheduling/groups/momentum.hpp"

namespace omni {

// A larger number of groups must be faster by this factor to be worth its staleness.
inline constexpr double kWorthMoreGroups = 1.1;

// In a Saturation, `groups` is the number beyond which iterations are not clearly faster.
struct Saturation {
  struct Timing {
    int groups;
    double seconds;  // per iteration
  };
  int groups = 1;
  std::vector<Timing> timings;  // by ascending numbers, up to the first that is not worth it
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
    double task_overhead = 0;        // s per task that the prediction adds
    IterationWork work{};            // measured, from which the prediction is made
    std::vector<double> measured{};  // s per iteration, by round; see plan_groups()
    Momentum momentum{};
    // `penalty` is the number of updates needed, relative to one group, and `penalty_error` is its
    // standard error. None: the penalty was not measured.
    std::optional<double> penalty{}, penalty_error{};

    // Returns the relative time of a whole training, to compare rows. A penalty that was not
    // measured is assumed to be the square root of the number of groups, as in published tables.
    double total() const { return predicted * penalty.value_or(std::sqrt(groups)); }
    std::optional<double> median_measured() const;
  };
  std::vector<Row> rows;  // one for each of planned_groups()
  NodeCosts node{};       // costs of this machine as one of several nodes

  int saturating_groups() const;
  // Returns the row with the smallest total. Among equal rows it is the one with the fewest groups.
  // Rows are equal within the errors of measured penalties, but at most within a factor of 1.3.
  const Row& best() const;
};

// Returns the numbers of groups to plan for: 1, 2, 4 ... and `most`.
std::vector<int> planned_groups(int most);

}  // namespace omni
