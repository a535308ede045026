// These tests check from which losses on a training counts as lost.
#include "scheduling/pilots/loss_watch.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace omni {
namespace {

const double kChance = std::log(10.0);

// Notes `count` losses from `from` to `to`, and returns whether the training was lost after one of
// them.
bool lost_by(LossWatch& watch, double from, double to, int count = 32) {
  bool lost = false;
  for (int i = 1; i <= count; ++i) {
    watch.note(from + (to - from) * i / count);
    lost = lost || watch.lost();
  }
  return lost;
}

TEST(LossWatch, a_falling_loss_is_good) {
  LossWatch watch(16, kChance);
  EXPECT_FALSE(watch.good()) << "of no losses nothing is known";
  EXPECT_FALSE(lost_by(watch, 2.4, 0.3));
  EXPECT_TRUE(watch.good());
  EXPECT_TRUE(watch.ends_well());
}

TEST(LossWatch, what_rises_to_chance_is_lost) {
  for (const double lowest : {2.0, 1.0, 0.01}) {
    LossWatch watch(16, kChance);
    EXPECT_FALSE(lost_by(watch, 2.4, lowest));
    EXPECT_FALSE(lost_by(watch, kChance, kChance, 16)) << "it may pass";
    EXPECT_TRUE(lost_by(watch, kChance, kChance)) << lowest;
    EXPECT_FALSE(watch.good());
    EXPECT_FALSE(watch.ends_well());
  }
}

// While a net has learned little, its loss may rise above chance for a while.
TEST(LossWatch, a_plateau_may_be_left_by_a_rise) {
  LossWatch watch(16, kChance);
  lost_by(watch, 2.4, 2.15);
  for (int i = 0; i < 64; ++i) {
    watch.note(2.25 + 0.1 * std::sin(i));
    ASSERT_FALSE(watch.lost()) << i;
  }
}

TEST(LossWatch, what_grows_before_it_learns_is_lost) {
  LossWatch watch(16, kChance);
  EXPECT_FALSE(lost_by(watch, 2.4, 2.5, 16));
  EXPECT_TRUE(lost_by(watch, 2.5, 8, 16)) << "an explosion does not pass";
}

TEST(LossWatch, a_bad_mini_batch_and_noise_are_not) {
  LossWatch watch(16, kChance);
  lost_by(watch, 2.4, 0.5);
  watch.note(1e9);
  EXPECT_FALSE(watch.lost());
  for (int i = 0; i < 1000; ++i) {
    watch.note(0.6 + 0.3 * std::sin(i));
    ASSERT_FALSE(watch.lost()) << i;
  }
  EXPECT_TRUE(watch.good());
}

TEST(LossWatch, a_rise_at_the_end_is_seen_before_it_is_sure) {
  LossWatch watch(16, kChance);
  lost_by(watch, 2.4, 0.5);
  lost_by(watch, 2, 2, 5);
  EXPECT_FALSE(watch.lost());
  EXPECT_FALSE(watch.ends_well());
}

TEST(LossWatch, the_first_window_is_a_level_to_compare_with) {
  LossWatch watch(16, kChance);
  lost_by(watch, 2.4, 1.0);
  watch.expect_falling();
  lost_by(watch, 1.2, 0.8, 15);
  EXPECT_FALSE(watch.first());
  lost_by(watch, 0.8, 0.8, 4);
  ASSERT_TRUE(watch.first());
  const LossMean level = *watch.first();
  EXPECT_EQ(level.count, 16);
  EXPECT_NEAR(level.mean, 1.0, 0.05);
  EXPECT_FALSE(watch.surely_above(level, level));
  LossMean higher = level, uncertain{16, 1.3, 16 * 15 * 0.01};
  higher.mean += 0.3;
  EXPECT_TRUE(watch.surely_above(higher, level));
  EXPECT_FALSE(watch.surely_above({16, 1.04, 0}, {16, 1, 0})) << "less than 0.05 of the loss";
  EXPECT_FALSE(watch.surely_above({16, 0.24, 0}, {16, 0.2, 0})) << "0.02 of the loss at chance";
  EXPECT_FALSE(watch.surely_above(uncertain, level)) << "the error is 0.1";
}

// The net had learned a little. Then all losses are that of guessing, which is not much higher.
TEST(LossWatch, a_net_that_only_guesses_after_it_had_learned_is_lost) {
  LossWatch guesses(16, kChance), never_learned(16, kChance);
  for (int i = 0; i < 16; ++i) {
    guesses.note(0.96 * kChance);
    never_learned.note(0.98 * kChance);
  }
  for (int i = 0; i < 40; ++i) {
    guesses.note(kChance);
    never_learned.note(kChance);
  }
  EXPECT_TRUE(guesses.lost());
  EXPECT_FALSE(never_learned.lost());
}

TEST(LossWatch, goes_on_as_it_was) {
  LossWatch watch(16, kChance), restored(16, kChance);
  lost_by(watch, 2.4, 1);
  restored.restore(watch.state());
  for (int i = 0; i < 64; ++i) {
    watch.note(1 + 0.03 * i);
    restored.note(1 + 0.03 * i);
    EXPECT_EQ(watch.lost(), restored.lost()) << i;
    EXPECT_EQ(watch.good(), restored.good()) << i;
  }
}

TEST(LossWatch, a_few_huge_losses_are_an_explosion_even_if_the_loss_comes_back) {
  LossWatch watch(16, 2.3), usual(16, 2.3), unknown(16, INFINITY);
  for (LossWatch* each : {&watch, &usual, &unknown})
    for (int i = 0; i < 20; ++i) each->note(2.3);
  for (int i = 0; i < 3; ++i) {
    watch.note(1e5);
    usual.note(i == 0 ? 1e5 : 2.3);  // one bad mini-batch
    unknown.note(1e5);
  }
  EXPECT_TRUE(watch.lost());
  EXPECT_FALSE(usual.lost());
  EXPECT_FALSE(unknown.lost());
}

}  // namespace
}  // namespace omni
