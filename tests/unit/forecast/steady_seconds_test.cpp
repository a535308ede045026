// These tests compute the time per iteration of groups from the times at which iterations ended.
#include "scheduling/forecast/steady_seconds.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace omni {
namespace {

// The first 6 iterations take 5 s each and the next 14 take 2 s. The last 4, which two groups had
// begun before the end, take 1 s.
TEST(SteadyRate, neither_start_nor_end_count) {
  std::vector<double> ends;
  double now = 0;
  for (int i = 0; i < 24; ++i) ends.push_back(now += i < 6 ? 5 : i < 20 ? 2 : 1);
  EXPECT_DOUBLE_EQ(steady_seconds(ends, 2), 2);
  EXPECT_LT(steady_seconds(ends, 1), 2);
}

TEST(SteadyRate, groups_that_end_together_are_counted_by_rounds) {
  for (const int iterations : {21, 30, 31, 40}) {
    std::vector<double> ends;
    for (int i = 0; i < iterations + 16; ++i) ends.push_back(8.0 * (i / 8));
    EXPECT_DOUBLE_EQ(steady_seconds(ends, 8), 1) << iterations;
  }
}

TEST(SteadyRate, two_iterations_have_a_rate) {
  EXPECT_DOUBLE_EQ(steady_seconds(std::vector{1.0, 3.0, 4.0, 5.0}, 1), 2);
}

}  // namespace
}  // namespace omni
