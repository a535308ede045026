// These tests find the number of groups beyond which an iteration takes hardly less time.
#include <gtest/gtest.h>

#include <algorithm>

#include "scheduling/forecast/group_plan.hpp"

namespace omni {
namespace {

// The time per iteration is modelled as in the Omnivore paper. Groups share 32 workers, and one
// group at a time computes the fully connected phase.
Result<Saturation> saturation(int most, double convolution, double connected) {
  return smallest_saturating(most, [=](int groups) {
    return std::max(connected, (convolution / (32.0 / groups) + connected) / groups);
  });
}

TEST(Saturation, is_the_smallest_number_beyond_which_nothing_is_gained) {
  const auto found = saturation(32, 96, 1);  // 4 with one group, 3.5, 3.25
  ASSERT_TRUE(found);
  EXPECT_EQ(found->groups, 2);
  EXPECT_EQ(found->timings.size(), 3u);  // stops measuring where nothing is gained
}

TEST(Saturation, reaches_bounds_that_are_no_power_of_two) {
  const auto found = smallest_saturating(6, [](int groups) { return 1.0 / groups; });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->groups, 6);
}

TEST(Saturation, needs_ten_percent) {
  const auto found = smallest_saturating(8, [](int groups) { return 1 - 0.01 * groups; });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->groups, 1);
}

}  // namespace
}  // namespace omni
