// These tests check when repeated measurements are said to agree.
#include "runtime/communicator/repeated_medians.hpp"

#include <gtest/gtest.h>

namespace omni {
namespace {

RepeatedMedians measured(const std::vector<double>& values) {
  RepeatedMedians medians;
  for (const double value : values) medians.add({9 * value, value, value / 9});
  return medians;
}

TEST(RepeatedMedians, agree_if_three_in_a_row_do) {
  EXPECT_FALSE(measured({1, 1}).agree());
  EXPECT_TRUE(measured({1, 1.05, 1.02}).agree());
  EXPECT_FALSE(measured({1, 1.05, 1.2}).agree());
  EXPECT_TRUE(measured({5, 1, 1.05, 1.02}).agree());
}

TEST(RepeatedMedians, that_agree_leave_out_those_before) {
  const RepeatedMedians medians = measured({5, 4, 1, 1.05, 1.02});
  EXPECT_DOUBLE_EQ(medians.value(), 1.02);
  EXPECT_DOUBLE_EQ(medians.spread(), 1.05);
}

TEST(RepeatedMedians, that_differ_have_the_smallest_and_the_spread_of_all) {
  const RepeatedMedians medians = measured({1, 5, 2, 4, 3});
  EXPECT_FALSE(medians.agree());
  EXPECT_DOUBLE_EQ(medians.value(), 1);
  EXPECT_DOUBLE_EQ(medians.spread(), 5);
}

}  // namespace
}  // namespace omni
