#include "scheduling/groups/steady_rate.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace omni {
namespace {

// Starts slowly, has a period of 2, and ends with what two groups had under way, half done.
TEST(SteadyRate, neither_start_nor_end_count) {
  std::vector<double> ends;
  double now = 0;
  for (int i = 0; i < 24; ++i) ends.push_back(now += i < 8 ? 5 : i < 20 ? 2 : 1);
  EXPECT_DOUBLE_EQ(steady_seconds(ends, 2), 2);
  EXPECT_LT(steady_seconds(ends, 1), 2);
}

TEST(SteadyRate, few_iterations_have_a_rate) {
  EXPECT_DOUBLE_EQ(steady_seconds(std::vector{1.0, 3.0}, 1), 2);
  EXPECT_DOUBLE_EQ(steady_seconds(std::vector{1.0, 3.0, 7.0, 8.0}, 16), 4);
}

}  // namespace
}  // namespace omni
