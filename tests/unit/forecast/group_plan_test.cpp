// These tests check that a plan advises the number of groups with the smallest predicted time, and
// the smallest number among equals.
#include "scheduling/forecast/group_plan.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

namespace omni {
namespace {

// Makes a plan with rows for 1, 2, 4 ... groups.
GroupPlan plan_of(
    const std::vector<std::pair<double, std::optional<double>>>& seconds_and_penalties) {
  GroupPlan plan;
  int groups = 1;
  for (const auto& [seconds, penalty] : seconds_and_penalties) {
    plan.rows.push_back({.groups = groups, .predicted = seconds, .penalty = penalty});
    groups *= 2;
  }
  return plan;
}

TEST(GroupPlan, best_is_the_smallest_time_times_penalty) {
  EXPECT_EQ(plan_of({{8, 1}, {5, 1}, {3, 1}, {2, 2}}).best().groups, 4);
  EXPECT_EQ(plan_of({{8, 1}, {5, 1}, {3, 1}, {2, 1.1}}).best().groups, 8);
  EXPECT_EQ(plan_of({{8, 1}, {5, 2}, {4, 4}}).best().groups, 1);
}

TEST(GroupPlan, a_penalty_that_was_not_measured_is_supposed_to_be_the_root_of_the_groups) {
  EXPECT_EQ(plan_of({{4, 1}, {2.9, {}}, {2.1, {}}}).best().groups, 1);
  EXPECT_EQ(plan_of({{4, 1}, {2.7, {}}, {2.1, {}}}).best().groups, 2);
  EXPECT_EQ(plan_of({{4, 1}, {2.7, {}}, {1.8, {}}}).best().groups, 4);
}

TEST(GroupPlan, of_rows_that_differ_less_than_their_errors_the_one_with_the_fewest_groups_is_best) {
  GroupPlan plan = plan_of({{4, 1}, {3, 1.3}});
  EXPECT_EQ(plan.best().groups, 2);
  plan.rows[1].penalty_error = 0.1;
  EXPECT_EQ(plan.best().groups, 1);
}

TEST(GroupPlan, as_many_groups_as_there_may_be_are_looked_at) {
  EXPECT_EQ(planned_groups(1), std::vector<int>{1});
  EXPECT_EQ(planned_groups(6), (std::vector<int>{1, 2, 4, 6}));
  EXPECT_EQ(planned_groups(8), (std::vector<int>{1, 2, 4, 8}));
}

TEST(GroupPlan, one_row_is_best) { EXPECT_EQ(plan_of({{1, 1}}).best().groups, 1); }

TEST(GroupPlan, saturates_where_more_groups_are_hardly_faster) {
  EXPECT_EQ(plan_of({{8, 1}, {5, 1}, {4.8, 1}, {1, 1}}).saturating_groups(), 2);
}

TEST(GroupPlan, what_was_measured_is_the_median_of_the_rounds) {
  const auto median = [](const std::vector<double>& rounds) {
    return GroupPlan::Row{.groups = 1, .measured = rounds}.median_measured();
  };
  EXPECT_EQ(median({}), std::nullopt);
  EXPECT_EQ(median({9, 1, 2}), 2);
  EXPECT_EQ(median({9, 1, 2, 4}), 3);
}

}  // namespace
}  // namespace omni
