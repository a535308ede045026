// These tests check what compare() tells of two trials.
#include "scheduling/pilots/tuning/comparison.hpp"

#include <gtest/gtest.h>

namespace omni {
namespace {

using Verdict = Comparison::Verdict;

constexpr double kCompareChance = 2.3;

TEST(Compare, a_difference_is_sure_beyond_errors_and_two_percent) {
  const auto shown = [](double level, double noise) {
    TrialResult result{TrialEnd::learns};
    for (int i = 0; i < 16; ++i) result.losses.push_back(level + (i % 2 == 0 ? noise : -noise));
    return result;
  };
  EXPECT_EQ(compare(shown(0.9, 0.1), shown(1, 0.1)).verdict, Verdict::better);
  EXPECT_EQ(compare(shown(1.1, 0.1), shown(1, 0.1)).verdict, Verdict::worse);
  EXPECT_EQ(compare(shown(0.995, 0.1), shown(1, 0.1)).verdict, Verdict::tie);
  EXPECT_EQ(compare(shown(0.985, 0.1), shown(1, 0.1)).verdict, Verdict::unsure);
  // The mean gain is again 0.1, but it differs from mini-batch to mini-batch.
  EXPECT_EQ(compare(shown(0.9, 0.4), shown(1, 0.1)).verdict, Verdict::unsure);
}

TEST(Compare, losses_near_chance_decide_nothing) {
  const TrialResult low{TrialEnd::learns, {2.2, 2.21}}, high{TrialEnd::at_chance, {2.3, 2.31}},
      clear{TrialEnd::learns, {2.0, 2.01}};
  EXPECT_EQ(compare(low, high, 2.3).verdict, Verdict::tie);
  EXPECT_EQ(compare(high, low, 2.3).verdict, Verdict::tie);
  EXPECT_EQ(compare(clear, high, 2.3).verdict, Verdict::better);
  EXPECT_EQ(compare(clear, low, 2.3).verdict, Verdict::better);
  EXPECT_EQ(compare(low, high).verdict, Verdict::better) << "the loss at chance is not known";
}

TEST(Compare, the_fate_comes_before_the_loss) {
  const TrialResult learns{TrialEnd::learns, {2, 2}}, chance{TrialEnd::at_chance, {2.3, 2.3}},
      above{TrialEnd::above_chance, {2.5, 2.5}}, dead{TrialEnd::dead, {2.3, 2.3}}, diverged{},
      behind{TrialEnd::behind};
  EXPECT_EQ(compare(chance, above).verdict, Verdict::better);
  EXPECT_EQ(compare(above, dead).verdict, Verdict::better);
  EXPECT_EQ(compare(learns, chance).verdict, Verdict::better);
  EXPECT_EQ(compare(chance, dead).verdict, Verdict::better);
  EXPECT_EQ(compare(dead, diverged).verdict, Verdict::better);
  EXPECT_EQ(compare(behind, learns).verdict, Verdict::worse);
  EXPECT_EQ(compare(chance, chance).verdict, Verdict::tie);
}

}  // namespace
}  // namespace omni
