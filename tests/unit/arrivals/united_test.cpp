// Several devices of a machine as one.
#include "scheduling/arrivals/machine_file.hpp"

#include <gtest/gtest.h>

namespace omni {
namespace {

Machine eight_equal() {
  Machine machine{.name = "eight", .devices = {}, .link = {}};
  for (int i = 0; i < 8; ++i)
    machine.devices.push_back({.kind = Machine::Kind::node, .flops_per_second = 1e9});
  return machine;
}

TEST(United, equal_devices_share_a_mini_batch_evenly) {
  const Machine machine = eight_equal();
  const Machine one = united(machine, 64, 1e6);
  ASSERT_EQ(one.devices.size(), 1u);
  EXPECT_NEAR(one.seconds(0, 64, 1e6), machine.seconds(0, 8, 1e6), 1e-9);
}

TEST(United, groups_stand_for_shares_of_the_devices) {
  const Machine machine = eight_equal();
  for (const int groups : {1, 2, 4}) {
    const Machine shares = grouped(machine, groups, 64, 1e6);
    ASSERT_EQ(shares.devices.size(), static_cast<std::size_t>(groups));
    for (std::size_t group = 0; group < shares.devices.size(); ++group)
      EXPECT_NEAR(shares.seconds(group, 64, 1e6), machine.seconds(0, 64, 1e6) * groups / 8, 1e-9);
  }
  EXPECT_EQ(grouped(machine, 8, 64, 1e6).devices.size(), 8u);
  EXPECT_EQ(grouped(machine, 16, 64, 1e6).devices.size(), 8u);
}

TEST(United, uneven_groups_take_uneven_times) {
  const Machine shares = grouped(eight_equal(), 3, 64, 1e6);  // 2, 3 and 3 devices
  EXPECT_GT(shares.seconds(0, 64, 1e6), shares.seconds(1, 64, 1e6));
}

TEST(United, more_groups_update_as_often_as_their_devices_and_messages_allow) {
  const Machine machine = eight_equal();
  const double one_alone = machine.seconds(0, 64, 1e6);
  for (const int groups : {1, 2, 4, 8, 16})
    EXPECT_NEAR(seconds_per_update(machine, groups, 64, 1e6, 0), one_alone / 8, 1e-9) << groups;
  // A message costs one group its whole length, eight groups an eighth.
  EXPECT_NEAR(seconds_per_update(machine, 1, 64, 1e6, 0.5), one_alone / 8 + 0.5, 1e-9);
  EXPECT_NEAR(seconds_per_update(machine, 8, 64, 1e6, 0.5), (one_alone + 0.5) / 8, 1e-9);
}

}  // namespace
}  // namespace omni
