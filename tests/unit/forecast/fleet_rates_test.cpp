// These tests check how fast a net trains on some of a machine's devices, and on which ranks
// members of an ensemble train.
#include "scheduling/forecast/fleet/rates.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "scheduling/forecast/fleet/fleet.hpp"
#include "scheduling/forecast/fleet/spread.hpp"

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

// ---- where members train ----

// Members of equal speed, with these lengths; `most`: most_ranks.
std::vector<SpreadMember> members_of(const std::vector<std::uint64_t>& samples, int most = 64) {
  std::vector<SpreadMember> members;
  for (const std::uint64_t each : samples) members.push_back({1e9, each, most});
  return members;
}

std::vector<int> counts_of(const Spread::Places& places) {
  std::vector<int> counts;
  for (const RankRange& each : places) counts.push_back(each.count);
  return counts;
}

// All ranks of a place exist, and a rank of a member with several ranks trains no other one.
void expect_sound(const Spread::Places& places, int ranks) {
  std::vector<int> members(ranks), divided(ranks);
  for (const RankRange& each : places)
    for (int rank = each.first; rank < each.end(); ++rank) {
      ASSERT_GE(rank, 0);
      ASSERT_LT(rank, ranks);
      ++members[rank];
      divided[rank] += each.count > 1 ? 1 : 0;
    }
  for (int rank = 0; rank < ranks; ++rank) EXPECT_TRUE(divided[rank] == 0 || members[rank] == 1);
}

TEST(Spread, ManyMembersAreSharedOutByTheirWork) {
  const std::vector<std::uint64_t> samples{3, 9, 4, 4, 1, 7, 2};
  const std::vector<double> work(samples.begin(), samples.end());
  const auto places = Spread(members_of(samples, 1), 3).by_work();
  expect_sound(places, 3);
  const std::vector<int> expected = share_out(work, 3);
  for (std::size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(places[i].first, expected[i]);
    EXPECT_EQ(places[i].count, 1);
  }
}

TEST(Spread, LongMembersHaveSeveralRanks) {
  EXPECT_EQ(counts_of(Spread(members_of({100}), 3).plan().places), (std::vector{3}));
  EXPECT_EQ(counts_of(Spread(members_of({100}, 2), 3).plan().places), (std::vector{2}));
  EXPECT_EQ(counts_of(Spread(members_of({100}, 1), 3).plan().places), (std::vector{1}));
  EXPECT_EQ(counts_of(Spread(members_of({300, 100}), 4).plan().places), (std::vector{3, 1}));
  EXPECT_EQ(counts_of(Spread(members_of({100, 100}), 4).plan().places), (std::vector{2, 2}));
  const auto places = Spread(members_of({10, 80, 10, 10}), 3).plan().places;
  EXPECT_EQ(counts_of(places), (std::vector{1, 2, 1, 1}));
  expect_sound(places, 3);
  for (int ranks = 1; ranks < 9; ++ranks)
    for (const auto& lengths : {std::vector<std::uint64_t>{1, 2, 3, 50, 60}, {5, 5, 5}, {9, 1, 9}})
      expect_sound(Spread(members_of(lengths), ranks).plan().places, ranks);
}

TEST(Spread, MembersMoveToRanksThatAreFree) {
  Spread spread(members_of({100, 1000}), 2);
  spread.begin(spread.plan().places);
  spread.note(0, 90, false, 9);
  spread.note(1, 90, false, 9);
  EXPECT_FALSE(spread.pays(9, 0)) << "no rank is free";
  spread.note(0, 100, true, 10);
  spread.note(1, 100, false, 10);
  // 900 samples take 90 s on one rank, and 50 on both.
  EXPECT_TRUE(spread.pays(10, 0));
  EXPECT_TRUE(spread.pays(10, 30));
  EXPECT_FALSE(spread.pays(10, 40));
  spread.learn(10);
  const Spread::Plan plan = spread.plan();
  EXPECT_EQ(counts_of(plan.places), (std::vector{0, 2}));
  EXPECT_NEAR(plan.seconds, 90 / std::pow(2, 0.85), 1e-6);
  spread.begin(plan.places);
  spread.note(1, 280, false, 10);
  EXPECT_FALSE(spread.pays(10, 0)) << "it has all ranks";
}

TEST(Spread, NobodyMovesInVain) {
  Spread undivided(members_of({100, 1000}, 1), 2);
  undivided.begin(undivided.plan().places);
  undivided.note(0, 100, true, 10);
  undivided.note(1, 100, false, 10);
  EXPECT_FALSE(undivided.pays(10, 0)) << "one rank is enough for one member";
  Spread unknown(members_of({100, 1000}), 2);
  unknown.begin(unknown.plan().places);
  unknown.note(0, 0, true, 10);
  EXPECT_FALSE(unknown.pays(10, 0)) << "no speed is known";
  Spread settled(members_of({100, 1000}), 2);
  settled.begin(settled.plan().places);
  settled.note(0, 20, false, 20);
  settled.note(1, 20, false, 20);
  EXPECT_FALSE(settled.pays(20, 0)) << "the best places are those that they have";
}

// What is measured counts: several ranks that are no faster than one are given back.
TEST(Spread, SpeedsAreLearnt) {
  Spread spread(members_of({1000, 1000}), 2);
  spread.begin({{0, 1}, {1, 1}});
  spread.note(0, 100, false, 10);
  spread.note(1, 200, false, 10);
  spread.learn(10);  // 10 and 20 samples in a second
  EXPECT_NEAR(spread.plan().seconds, 40 + 50 / std::pow(2, 0.85), 1e-6);
  spread.note(1, 1000, true, 40);
  spread.begin({{0, 2}, {0, 0}});
  spread.note(0, 150, false, 10);
  spread.learn(10);  // 5 samples in a second, on two ranks
  EXPECT_EQ(counts_of(spread.plan().places), (std::vector{1, 0}));
  EXPECT_NEAR(spread.plan().seconds, 85, 1e-6);
  EXPECT_EQ(counts_of(spread.by_work()), (std::vector{1, 0})) << "the best places count";
}

// A rank whose member has ended has not computed since then.
TEST(Spread, FreeRanksAreNotSlow) {
  Spread spread(members_of({100, 1000, 1000}, 1), 2);
  spread.begin({{0, 1}, {1, 1}, {0, 0}});
  spread.note(0, 100, true, 10);
  spread.note(1, 200, false, 20);
  spread.learn(20);
  EXPECT_NEAR(spread.plan().seconds, 100, 1e-6);
}

// A rank's members share its time. Those that have not trained yet are taken to be as fast.
TEST(Spread, MembersOfARankShareItsTime) {
  Spread spread(members_of({100, 100, 400}, 1), 2);
  const auto places = spread.by_work();
  EXPECT_EQ(places[0].first, places[1].first);
  spread.begin(places);
  spread.note(0, 50, false, 10);
  spread.note(1, 50, false, 10);
  spread.learn(10);  // 10 samples in a second
  EXPECT_NEAR(spread.plan().seconds, 40, 1e-6);
}

// If two ranks train a member three times as fast as one, members take turns.
TEST(Spread, FlotillasFollowEachOtherIfThatIsFaster) {
  Spread spread(members_of({1000, 1000}), 2);
  EXPECT_EQ(counts_of(spread.plan().places), (std::vector{1, 1}));
  spread.begin({{0, 1}, {1, 1}});
  for (const int member : {0, 1}) spread.note(member, 100, false, 10);
  spread.learn(10);
  for (const int member : {0, 1}) {
    Spread::Places alone{{0, 0}, {0, 0}};
    alone[member] = {0, 2};
    spread.begin(alone);
    spread.note(member, 400, false, 10);
    spread.learn(10);
  }
  const Spread::Plan plan = spread.plan();
  EXPECT_NEAR(plan.seconds, 40, 1e-3);
  std::vector<int> counts = counts_of(plan.places);
  std::ranges::sort(counts);
  EXPECT_EQ(counts, (std::vector{0, 2}));
}

// A member that has nothing left still needs a rank, on which it is evaluated.
TEST(Spread, CompleteMembersHaveAPlaceUntilTheyEnd) {
  Spread spread(members_of({100, 1000}), 3);
  spread.note(0, 100, false, 0);
  EXPECT_EQ(counts_of(spread.plan().places), (std::vector{1, 2}));
  spread.note(0, 100, true, 0);
  EXPECT_EQ(counts_of(spread.plan().places), (std::vector{0, 3}));
}

}  // namespace
}  // namespace omni
