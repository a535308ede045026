// These tests check which step a sweep of growing steps finds best, and which step it finds to
// diverge.
#include "scheduling/pilots/tuning/step_range.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace omni {
namespace {

constexpr double kSweepChance = 2.3;

// Returns the range that a sweep of the steps 1, 2, 4 ... with these losses gives.
StepRange range_of(const std::vector<double>& losses, bool diverged = false,
                   double chance = kSweepChance) {
  return step_range({.first = 1, .factor = 2, .losses = losses, .diverged = diverged}, chance);
}

TEST(StepRange, best_is_in_the_middle_of_the_lowest_losses) {
  const StepRange range = range_of({2.3, 2.3, 2.0, 1.5, 1.2, 1.1, 1.2, 1.5, 2.3, 2.3});
  ASSERT_TRUE(range.best);
  EXPECT_EQ(*range.best, 32);
  EXPECT_FALSE(range.fails);
}

TEST(StepRange, a_loss_near_chance_is_not_learned) {
  EXPECT_FALSE(range_of({2.3, 2.3, 2.3, 2.3, 2.3, 2.2, 2.2, 2.2, 2.2, 2.2, 2.3}).best);
  EXPECT_TRUE(range_of({2.3, 2.3, 2.3, 2.3, 2.3, 2.1, 2.1, 2.1, 2.1, 2.1, 2.3}).best);
  // The loss falls from above chance to chance, so the net has learned nothing.
  EXPECT_FALSE(range_of({4, 4, 4, 3, 2.3, 2.3, 2.3, 2.3, 2.3}).best);
  EXPECT_TRUE(range_of({4, 4, 4, 3, 2.3, 2.3, 2.3, 2.3, 2.3}, false, INFINITY).best);
}

TEST(StepRange, fails_where_the_loss_explodes_and_sees_nothing_behind_it) {
  const StepRange range = range_of({2.3, 2.3, 2.3, 2.3, 2.3, 9, 9, 0.1, 0.1, 0.1, 0.1, 0.1});
  EXPECT_EQ(range.fails, 32);
  EXPECT_FALSE(range.best);
  EXPECT_FALSE(range_of({2.3, 2.3, 2.3, 2.3, 5, 2.3, 2.3}).fails) << "one loss alone";
}

TEST(StepRange, fails_behind_the_last_finite_loss) {
  EXPECT_EQ(range_of({2.3, 2.3, 2.3}, true).fails, 8);
  EXPECT_EQ(range_of({}, true).fails, 1);
}

TEST(StepRange, above_chance_is_beyond_errors_and_one_per_cent) {
  const auto mean = [](double level, double noise) {
    return mean_of(std::vector{level + noise, level - noise, level + noise, level - noise});
  };
  EXPECT_TRUE(surely_above_chance(mean(2.4, 0.01), kSweepChance));
  EXPECT_FALSE(surely_above_chance(mean(2.4, 0.1), kSweepChance));
  EXPECT_FALSE(surely_above_chance(mean(2.31, 0.0001), kSweepChance));
  EXPECT_FALSE(surely_above_chance(mean(9, 0), INFINITY));
}

}  // namespace
}  // namespace omni
