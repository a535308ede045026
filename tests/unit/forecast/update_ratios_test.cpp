// These tests compute from given losses how many more updates several groups need than one group.
#include "scheduling/forecast/update_ratios.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

// Returns losses that fall like 1 / (1 + t / scale), plus and minus `noise` in turn.
std::vector<double> falling(std::size_t count, double scale, double noise = 0.02) {
  std::vector<double> losses(count);
  for (std::size_t i = 0; i < count; ++i)
    losses[i] = 1 / (1 + static_cast<double>(i) / scale) + (i % 2 == 0 ? noise : -noise);
  return losses;
}

TEST(UpdateRatios, a_loss_that_falls_half_as_fast_needs_twice_the_updates) {
  const auto one = falling(400, 100);
  for (const double slower : {1.0, 1.5, 2.0, 3.0}) {
    const UpdateRatio ratio = ratio_of_updates(4, one, falling(1600, 100 * slower), 32);
    EXPECT_EQ(ratio.groups, 4);
    EXPECT_NEAR(ratio.ratio, slower, 0.06 * slower);
    EXPECT_GT(ratio.error, 0);
    EXPECT_LT(ratio.error, 0.1 * slower);
  }
}

TEST(UpdateRatios, noise_is_in_the_error) {
  const auto with = [](double noise) {
    return ratio_of_updates(2, falling(400, 100, noise), falling(800, 100, noise), 32).error;
  };
  EXPECT_GT(with(0.2), 2 * with(0.02));
}

TEST(UpdateRatios, a_loss_that_is_never_reached_is_infinity) {
  EXPECT_TRUE(std::isinf(ratio_of_updates(8, falling(400, 100), falling(400, 1000), 32).ratio));
  EXPECT_TRUE(std::isinf(ratio_of_updates(8, falling(400, 100), falling(10, 100), 32).ratio));
}

TEST(UpdateRatios, are_kept_for_a_net_and_its_data) {
  const test::TemporaryDirectory folder;
  const UpdateRatios kept(folder / "", "net on data");
  EXPECT_TRUE(kept.read().empty());
  ASSERT_TRUE(kept.write({{.groups = 1}, {2, 1.3, 0.1}, {8, INFINITY, 0}}));
  const auto read = kept.read();
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[1].groups, 2);
  EXPECT_DOUBLE_EQ(read[1].ratio, 1.3);
  EXPECT_DOUBLE_EQ(read[1].error, 0.1);
  EXPECT_TRUE(std::isinf(read[2].ratio));
  EXPECT_TRUE(UpdateRatios(folder / "", "other data").read().empty());
  for (const char* damage : {"", "{}", "[1]", "[{\"groups\": 0}]", "[{\"groups\": 65}]", "[{"}) {
    std::ofstream(kept.path()) << damage;
    EXPECT_TRUE(kept.read().empty()) << damage;
  }
}

}  // namespace
}  // namespace omni
