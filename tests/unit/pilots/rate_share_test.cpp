// These tests check how the guard's share of the learning rate grows, shrinks and is saved.
#include "scheduling/pilots/rate_share.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace omni {
namespace {

constexpr double kRate = 0.1;

// Returns the guard's share of the rate after this number of good stretches, each of ten
// iterations.
double after_good(RateShare& share, int stretches, std::uint64_t from, double rate = kRate) {
  for (int i = 1; i <= stretches; ++i)
    share.held(from + 10 * static_cast<std::uint64_t>(i), rate, false, true);
  return share.value();
}

TEST(RateShare, doubles_up_to_the_whole_rate_while_nothing_fails) {
  RateShare share(0.3);
  EXPECT_DOUBLE_EQ(after_good(share, 1, 0), 0.6);
  EXPECT_EQ(after_good(share, 1, 10), 1);
  EXPECT_EQ(after_good(share, 5, 20), 1);
}

TEST(RateShare, does_not_grow_where_too_little_is_left) {
  RateShare share(0.3);
  share.held(10, kRate, false, false);
  EXPECT_EQ(share.value(), 0.3);
}

// The share 0.4 has failed, and half of it has held. The next share lies between the two.
TEST(RateShare, approaches_what_failed_and_does_not_try_it_again) {
  RateShare share(0.2);
  EXPECT_DOUBLE_EQ(after_good(share, 1, 900), 0.4);
  share.failed(920, kRate);
  EXPECT_DOUBLE_EQ(share.value(), 0.2) << "what held before";
  share.held(930, kRate, false, true);
  EXPECT_DOUBLE_EQ(share.value(), 0.2) << "it waits for two good stretches";
  share.held(940, kRate, false, true);
  EXPECT_DOUBLE_EQ(share.value(), std::sqrt(0.2 * 0.4));
  EXPECT_DOUBLE_EQ(after_good(share, 100, 950), std::sqrt(0.2 * 0.4)) << "the next gain is small";
  share.failed(2000, kRate);
  EXPECT_DOUBLE_EQ(share.value(), 0.2);
  EXPECT_LT(after_good(share, 100, 2000), std::sqrt(0.2 * 0.4));
}

// The loss at the grown share is higher than before the share grew.
TEST(RateShare, does_not_keep_growth_that_raises_the_loss) {
  RateShare share(0.2);
  EXPECT_DOUBLE_EQ(after_good(share, 1, 0), 0.4);
  share.held(20, kRate, true, true);
  EXPECT_DOUBLE_EQ(share.value(), 0.2);
  share.held(30, kRate, true, true);
  EXPECT_DOUBLE_EQ(share.value(), 0.2) << "it has not just grown, and does not grow now";
}

// The share 1 failed. The previous share, 0.9, is too near to it, so half of 1 is taken.
TEST(RateShare, halves_where_what_held_before_is_near) {
  RateShare share(0.9);
  EXPECT_EQ(after_good(share, 1, 0), 1);
  share.failed(20, kRate);
  EXPECT_DOUBLE_EQ(share.value(), 0.5);
}

TEST(RateShare, halves_while_nothing_holds) {
  RateShare share(0.4);
  share.failed(10, kRate);
  EXPECT_DOUBLE_EQ(share.value(), 0.2);
  share.failed(20, kRate);
  EXPECT_DOUBLE_EQ(share.value(), 0.1);
  for (int i = 0; i < 20; ++i) share.failed(30, kRate);
  EXPECT_TRUE(share.is_smallest());
}

TEST(RateShare, what_held_once_may_fail_later) {
  RateShare share(0.2);
  (void)after_good(share, 1, 0);
  share.failed(20, kRate);
  share.failed(30, kRate);
  EXPECT_DOUBLE_EQ(share.value(), 0.1);
}

TEST(RateShare, forgets_a_failure_when_the_training_is_four_times_as_long) {
  RateShare share(0.2);
  (void)after_good(share, 1, 90);
  share.failed(100, kRate);
  EXPECT_LT(after_good(share, 28, 110), 0.3);
  EXPECT_DOUBLE_EQ(after_good(share, 1, 390), 2 * std::sqrt(0.2 * 0.4)) << "iteration 400";
}

// A share that failed is tried again when the learning rate has fallen to a tenth.
TEST(RateShare, compares_rates) {
  RateShare share(0.2);
  (void)after_good(share, 1, 990);
  share.failed(1010, kRate);
  EXPECT_EQ(after_good(share, 30, 1010, kRate / 10), 1);
}

RateShare resumed(const RateShare& share) {
  const std::vector<double> numbers = share.saved();
  SavedNumbers read(numbers);
  RateShare other(read, true);
  EXPECT_TRUE(read.status("guard"));
  EXPECT_EQ(other.saved(), numbers);
  return other;
}

TEST(RateShare, is_saved_with_its_failures) {
  RateShare share(0.2);
  (void)after_good(share, 1, 990);
  share.failed(1010, kRate);
  RateShare other = resumed(share);
  for (std::uint64_t i = 102; i < 150; ++i) {
    share.held(10 * i, kRate, false, true);
    other.held(10 * i, kRate, false, true);
    EXPECT_EQ(share.value(), other.value()) << i;
  }
  EXPECT_EQ(other.saved(), share.saved());
}

TEST(RateShare, that_has_just_grown_is_saved_so) {
  RateShare share(0.2);
  (void)after_good(share, 1, 0);
  RateShare other = resumed(share);
  other.held(20, kRate, true, true);
  EXPECT_DOUBLE_EQ(other.value(), 0.2);
}

}  // namespace
}  // namespace omni
