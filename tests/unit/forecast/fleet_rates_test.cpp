// These tests compare the training rates of ensemble members on 1, 2, 3 ... devices with results by
// hand.
#include "scheduling/forecast/fleet/rates.hpp"

#include <gtest/gtest.h>

namespace omni {
namespace {

// A device takes 1 s for each sample, and 2 s + 8 s more for each mini-batch.
Machine gpus(int count, Machine::Link link = {}) {
  Machine machine{.name = "gpus", .link = link};
  machine.devices.assign(
      count, {.kind = Machine::Kind::gpu, .overhead = 2, .flops_per_second = 100, .half_size = 8});
  return machine;
}

NetCosts small_net(double bytes) {
  return {.images = 64, .flops = 100, .replicated = {.parts = std::vector<double>(100, bytes)}};
}

TEST(FleetRates, DevicesDivideAMiniBatch) {
  const auto rates = synchronous_rates(gpus(4), small_net(4));
  ASSERT_EQ(rates.size(), 4u);
  EXPECT_NEAR(rates[0], 64 / (2 + 64. + 8), 1e-6);
  EXPECT_NEAR(rates[1], 64 / (2 + 32. + 8), 1e-6);
  EXPECT_NEAR(rates[2], 64 / (2 + 22. + 8), 1e-6);
  EXPECT_NEAR(rates[3], 64 / (2 + 16. + 8), 1e-6);
}

// Two devices compute for 42 s each. The forward pass, a third of it, sends nothing. Then each
// device sends and receives half of the gradients and of the new values; of four devices, each
// three quarters.
TEST(FleetRates, LinksLimitDevices) {
  const auto rates = synchronous_rates(gpus(4, {.bytes_per_second = 100}), small_net(100));
  EXPECT_NEAR(64 / rates[0], 74, 1e-6);
  EXPECT_NEAR(64 / rates[1], 14 + 100, 3);
  EXPECT_NEAR(64 / rates[3], 26 / 3. + 150, 5);
}

// The rate of three devices is the same on a machine of three devices as on one of four. Unused
// devices own no parameters.
TEST(FleetRates, FewerDevicesAreAsASmallerMachine) {
  const Machine::Link link{.seconds = 1e-3, .bytes_per_second = 1e4};
  auto rates = synchronous_rates(gpus(4, link), small_net(100));
  rates.resize(3);
  EXPECT_EQ(rates, synchronous_rates(gpus(3, link), small_net(100)));
}

TEST(FleetRates, APlanIsOnTheDevicesThatAreLikeTheFirst) {
  Machine machine = gpus(4, {.seconds = 1});
  machine.devices[1].flops_per_second = 50;
  machine.devices[2].kind = Machine::Kind::cpu;
  machine.devices[3].serves_merged = true;
  const Machine alike = devices_like_first(machine);
  EXPECT_EQ(alike.name, "gpus");
  EXPECT_EQ(alike.link.seconds, 1);
  ASSERT_EQ(alike.devices.size(), 2u);
  EXPECT_EQ(alike.devices[1], alike.devices[0]);
}

}  // namespace
}  // namespace omni
