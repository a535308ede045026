// These tests check how groups are placed on a machine's devices, and how the devices of a group
// divide a mini-batch.
#include "scheduling/forecast/machine/group_devices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace omni {
namespace {

using Kind = Machine::Kind;

Machine devices_of(const std::vector<std::pair<Kind, int>>& kinds) {
  Machine machine{.name = "made up", .devices = {}, .link = {}};
  for (const auto& [kind, count] : kinds)
    machine.devices.insert(machine.devices.end(), static_cast<std::size_t>(count),
                           {.kind = kind, .flops_per_second = 1e9});
  return machine;
}

std::vector<std::size_t> sizes(const GroupDevices& placement) {
  std::vector<std::size_t> all;
  for (const auto& devices : placement.devices) all.push_back(devices.size());
  return all;
}

using Sizes = std::vector<std::size_t>;

TEST(GroupDevices, GroupsUseAllDevices) {
  for (const auto& kinds : {std::vector<std::pair<Kind, int>>{{Kind::node, 33}},
                            {{Kind::gpu, 1}, {Kind::cpu, 48}},
                            {{Kind::gpu, 3}, {Kind::cpu, 2}, {Kind::gpu, 5}}})
    for (int groups = 1; groups <= 64; ++groups) {
      const Machine machine = devices_of(kinds);
      const GroupDevices placement = place_on(machine, groups, false);
      std::vector<int> used(machine.devices.size());
      for (const auto& devices : placement.devices)
        for (const std::size_t device : devices) ++used[device];
      EXPECT_EQ(placement.devices.size(), static_cast<std::size_t>(groups));
      const auto [least, most] = std::ranges::minmax(used);
      EXPECT_GE(least, 1) << groups;
      EXPECT_LE(most, least + (groups > std::ssize(used) ? 1 : 0)) << groups;
    }
}

TEST(GroupDevices, NeighboursFormAGroup) {
  EXPECT_EQ(sizes(place_on(devices_of({{Kind::node, 33}}), 8, false)),
            (Sizes{4, 4, 4, 4, 4, 4, 4, 5}));
  EXPECT_EQ(place_on(devices_of({{Kind::gpu, 2}}), 5, false).devices,
            (std::vector<Sizes>{{0}, {0}, {0}, {1}, {1}}));
}

// The first node is as fast as the three others together.
TEST(GroupDevices, UnlikeNodesFormGroupsOfAboutEqualSpeed) {
  Machine machine = devices_of({{Kind::node, 4}});
  machine.devices.front().flops_per_second = 3e9;
  EXPECT_EQ(sizes(place_on(machine, 2, false)), (Sizes{1, 3}));
  EXPECT_EQ(sizes(place_on(machine, 1, false)), (Sizes{4}));
  machine.devices.front().kind = Kind::gpu;
  for (std::size_t other = 1; other < 4; ++other) machine.devices[other].kind = Kind::gpu;
  EXPECT_EQ(sizes(place_on(machine, 2, false)), (Sizes{2, 2})) << "only nodes are dealt so";
}

TEST(GroupDevices, KindsAreApartWhereThereAreGroupsForThem) {
  const Machine machine = devices_of({{Kind::gpu, 1}, {Kind::cpu, 48}});
  EXPECT_EQ(sizes(place_on(machine, 1, false)), (Sizes{49}));
  EXPECT_EQ(sizes(place_on(machine, 2, false)), (Sizes{1, 48}));
  EXPECT_EQ(sizes(place_on(machine, 4, false)), (Sizes{1, 16, 16, 16}));
}

TEST(GroupDevices, ADeviceServesMergedLayersAloneWhereGroupsMergeThem) {
  Machine machine = devices_of({{Kind::node, 5}});
  EXPECT_EQ(place_on(machine, 2, true).server, 0u);
  EXPECT_EQ(sizes(place_on(machine, 2, true)), (Sizes{2, 3}));
  machine.devices.back().serves_merged = true;
  EXPECT_EQ(place_on(machine, 2, true).server, 4u);
  EXPECT_EQ(sizes(place_on(machine, 2, true)), (Sizes{2, 2}));
  EXPECT_EQ(place_on(machine, 2, false).server, std::nullopt);
  EXPECT_EQ(sizes(place_on(machine, 1, false)), (Sizes{5})) << "it computes like any other";
}

TEST(Division, DevicesTakeTheSameTime) {
  const Machine machine = devices_of({{Kind::node, 8}});
  std::vector<std::size_t> all(8);
  std::iota(all.begin(), all.end(), std::size_t{0});
  const Division equal = divide(machine, all, 64, 1e6);
  EXPECT_NEAR(equal.seconds, machine.seconds(0, 8, 1e6), 1e-9);
  EXPECT_EQ(equal.samples, std::vector<std::uint64_t>(8, 8));
  const Division few = divide(machine, all, 3, 1e6);
  EXPECT_EQ(std::ranges::count(few.samples, 0u), 5);

  Machine uneven = devices_of({{Kind::gpu, 1}, {Kind::cpu, 2}});
  uneven.devices[0].flops_per_second = 6e9;
  const std::vector<std::size_t> three{0, 1, 2};
  EXPECT_EQ(divide(uneven, three, 64, 1e6).samples, (std::vector<std::uint64_t>{48, 8, 8}));
}

}  // namespace
}  // namespace omni
