// These tests check rules of --auto outside a search. They decide when a net cannot learn any more,
// when the step is raised, and when a trial is given up.
#include "scheduling/pilots/tuning/tuning.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduling/pilots/tuning/trials.hpp"

namespace omni {
namespace {

constexpr double kAtChance = 2.3;

// Returns the mean of three losses that hardly differ.
LossMean level(double loss) { return mean_of(std::vector{loss, loss + 1e-4, loss - 1e-4}); }

TEST(TuningFailure, before_it_learns_a_loss_above_guessing_says_that_the_step_is_too_large) {
  const Tuning tuning{.failing_step = 10};
  const auto why = tuning.failure(level(2.4), 1, kAtChance);
  ASSERT_TRUE(why);
  EXPECT_EQ(*why, "the loss is 2.4, above that of guessing, 2.3");
  EXPECT_FALSE(tuning.failure(level(2.31), 1, kAtChance)) << "by less than one per cent";
  EXPECT_FALSE(tuning.failure(level(2.2), 1, kAtChance));
  EXPECT_FALSE(tuning.failure(mean_of(std::vector{1.4, 3.4}), 1, kAtChance)) << "it is not sure";
}

// With a step that is far too small, the loss stays above that of guessing, where it began.
TEST(TuningFailure, of_a_thousandth_of_the_failing_step_is_not_seen_in_the_loss) {
  const Tuning tuning{.failing_step = 10};
  EXPECT_TRUE(tuning.failure(level(2.4), 0.0101, kAtChance));
  EXPECT_FALSE(tuning.failure(level(2.4), 0.0099, kAtChance));
  EXPECT_FALSE(Tuning().failure(level(2.4), 1, kAtChance)) << "no failing step is known";
}

TEST(TuningFailure, after_it_has_learned_the_loss_is_back_near_guessing) {
  const Tuning tuning{.warm = true, .failing_step = 10};
  const auto why = tuning.failure(level(2.27), 1, kAtChance);
  ASSERT_TRUE(why);
  EXPECT_EQ(*why, "the loss is 2.27, back near that of guessing, 2.3");
  EXPECT_TRUE(tuning.failure(level(2.27), 1e-6, kAtChance)) << "whatever the step is";
  EXPECT_FALSE(tuning.failure(level(2.24), 1, kAtChance)) << "97.4 % of it";
}

TEST(FailedSteps, keep_the_smallest_for_each_number_of_groups) {
  Tuning tuning;
  for (const double step : {0.5, 0.2, 1.0}) tuning.note_failed(1, step);
  tuning.note_failed(2, 2.0);
  EXPECT_EQ(tuning.failed, (std::map<int, double>{{1, 0.2}, {2, 2.0}}));
}

// After a tenth of the iterations, the step is multiplied by up to 10. It becomes at most a
// hundredth of the failing step.
TEST(RaisedStep, leads_to_a_hundredth_of_the_failing_one) {
  const Tuning tuning{.changed = 100, .failing_step = 10};
  EXPECT_EQ(tuning.raised(1e-4, 1, 300, 2000), 1e-3);
  EXPECT_EQ(tuning.raised(0.02, 1, 300, 2000), 0.1) << "no further";
  EXPECT_EQ(tuning.raised(0.049, 1, 300, 2000), 0.1);
  EXPECT_FALSE(tuning.raised(0.051, 1, 300, 2000)) << "it is not worth it";
  EXPECT_FALSE(tuning.raised(1e-4, 1, 299, 2000)) << "too early";
  EXPECT_FALSE(Tuning().raised(1e-4, 1, 300, 2000)) << "no failing step is known";
}

TEST(RaisedStep, stays_clearly_below_a_step_that_has_failed_with_so_many_groups) {
  const Tuning tuning{.failing_step = 1e3, .failed = {{2, 1}}};
  EXPECT_DOUBLE_EQ(tuning.raised(0.03, 2, 1000, 2000).value_or(0), 0.3);
  EXPECT_FALSE(tuning.raised(0.035, 2, 1000, 2000)) << "0.35 is more than 1 / 3.16";
  EXPECT_DOUBLE_EQ(tuning.raised(0.035, 1, 1000, 2000).value_or(0), 0.35)
      << "of other numbers of groups";
}

TEST(TrialBehind, has_less_than_half_of_a_step_that_is_far_from_the_failing_one) {
  EXPECT_TRUE(may_be_behind(0.4, 1, 10));
  EXPECT_FALSE(may_be_behind(0.5, 1, 10));
  EXPECT_FALSE(may_be_behind(2, 1, 10));
  EXPECT_TRUE(may_be_behind(0.4, 1, 8.1));
  EXPECT_FALSE(may_be_behind(0.4, 1, 7.9)) << "an eighth: the champion may fail yet";
}

TEST(TrialBehind, is_surely_above_a_champion_that_learns) {
  const std::vector<double> champion{1.0, 1.2, 0.8, 1.0};
  const auto above = [&](double by, double noise = 0) {
    std::vector<double> losses = champion;
    for (std::size_t i = 0; i < losses.size(); ++i) losses[i] += by + (i % 2 == 0 ? noise : -noise);
    return losses;
  };
  EXPECT_TRUE(is_behind(above(0.06), champion, kAtChance));
  EXPECT_FALSE(is_behind(above(0.04), champion, kAtChance)) << "by 4 %";
  EXPECT_FALSE(is_behind(above(-0.06), champion, kAtChance));
  EXPECT_TRUE(is_behind(above(0.06, 0.02), champion, kAtChance)) << "5.2 standard errors";
  EXPECT_FALSE(is_behind(above(0.06, 0.03), champion, kAtChance)) << "3.5 standard errors";
  EXPECT_TRUE(is_behind(above(0.06), champion, 1.12));
  EXPECT_FALSE(is_behind(above(0.06), champion, 1.1)) << "the champion is near chance";
}

}  // namespace
}  // namespace omni
