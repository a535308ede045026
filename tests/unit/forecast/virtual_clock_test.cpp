// These tests compare the virtual clock with the theory of staleness, and the shipped machine files
// with published measurements.
#include "scheduling/forecast/virtual_clock.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>

#include "scheduling/forecast/machine/machine_file.hpp"

namespace omni {
namespace {

using Law = Machine::Law;

Machine machine_of(Law law, int devices) {
  return {.devices = std::vector<Machine::Device>(
              static_cast<std::size_t>(devices),
              {.seconds = {{1, 0.01}}, .law = law, .sigma = law == Law::lognormal ? 0.5 : 0})};
}

VirtualClock clock_of(const Machine& machine, int groups, double flops = 1,
                      std::uint64_t seed = 1) {
  return VirtualClock(machine, place_on(machine, groups, false), {.flops = flops}, seed);
}

// Each group reads the model right after its own update. Returns how many of `updates` updates came
// after 0, 1, 2 ... updates of other groups.
std::map<int, double> staleness(Law law, int groups, int updates) {
  VirtualClock clock = clock_of(machine_of(law, groups), groups);
  std::vector<int> read(static_cast<std::size_t>(groups));
  for (int group = 0; group < groups; ++group) clock.begin(group, 1, Sends::update);
  std::map<int, double> counts;
  for (int update = 0; update < updates; ++update) {
    const int group = clock.next();
    int& read_at = read[static_cast<std::size_t>(group)];
    counts[update - read_at] += 1;
    read_at = update + 1;
    clock.begin(group, 1, Sends::update);
  }
  return counts;
}

class ClockedGroups : public testing::TestWithParam<int> {
 protected:
  const int groups_ = GetParam();
  static constexpr int kUpdates = 100000;
};
INSTANTIATE_TEST_SUITE_P(Count, ClockedGroups, testing::Values(2, 4, 8, 16));

TEST_P(ClockedGroups, mean_staleness_follows_from_their_number_under_any_law) {
  for (const Law law : {Law::constant, Law::exponential, Law::lognormal}) {
    double sum = 0;
    for (const auto& [stale, count] : staleness(law, groups_, kUpdates)) sum += stale * count;
    EXPECT_NEAR(sum / kUpdates, groups_ - 1, 0.02 * (groups_ - 1)) << static_cast<int>(law);
  }
}

TEST_P(ClockedGroups, staleness_is_geometric_under_the_exponential_law) {
  std::map<int, double> counts = staleness(Law::exponential, groups_, kUpdates);
  double expected = 1. / groups_;
  for (int stale = 0; expected * kUpdates > 200; ++stale, expected *= 1 - 1. / groups_) {
    const double deviation = std::sqrt(expected / kUpdates);
    EXPECT_NEAR(counts[stale] / kUpdates, expected, 5 * deviation) << stale;
  }
}

TEST_P(ClockedGroups, take_turns_under_the_constant_law) {
  VirtualClock clock = clock_of(machine_of(Law::constant, groups_), groups_);
  for (int group = 0; group < groups_; ++group) clock.begin(group, 1, Sends::update);
  for (int update = 0; update < 10 * groups_; ++update) {
    ASSERT_EQ(clock.next(), update % groups_);
    EXPECT_NEAR(clock.now(), 0.01 * (1 + update / groups_), 1e-7);
    clock.begin(update % groups_, 1, Sends::update);
  }
  // In the first round the updates have a staleness of 0, 1, ... groups_ - 1. All later updates
  // have groups_ - 1.
  EXPECT_EQ(staleness(Law::constant, groups_, kUpdates)[groups_ - 1], kUpdates - groups_ + 1);
}

TEST(VirtualClock, the_mean_time_is_the_machines_under_any_law) {
  for (const Law law : {Law::constant, Law::exponential, Law::lognormal}) {
    VirtualClock clock = clock_of(machine_of(law, 1), 1);
    constexpr int kDraws = 100000;
    for (int i = 0; i < kDraws; ++i) clock.begin(0, 1, Sends::update), clock.next();
    EXPECT_NEAR(clock.now() / kDraws, 0.01, 0.01 * 0.01) << static_cast<int>(law);
  }
}

// The expected times were computed outside this program. They are multiples of 2^-30 s.
TEST(VirtualClock, draws_are_the_same_on_every_machine) {
  const std::map<Law, std::vector<double>> expected{
      {Law::exponential, {32186862, 43255725, 108537849}},
      {Law::lognormal, {20381566, 25105121, 40880972}}};
  for (const auto& [law, times] : expected) {
    VirtualClock clock = clock_of(machine_of(law, 1), 1);
    for (const double time : times) {
      clock.begin(0, 1, Sends::update);
      clock.next();
      EXPECT_EQ(clock.now() * 0x1p30, time);
    }
  }
}

TEST(VirtualClock, groups_share_a_device) {
  VirtualClock clock = clock_of(machine_of(Law::constant, 2), 3);  // two on the first device
  for (const int group : {0, 1, 2})
    clock.begin(group, static_cast<std::uint64_t>(group + 1), Sends::update);
  EXPECT_EQ(clock.next(), 0);
  EXPECT_NEAR(clock.now(), 0.02, 1e-8);
  EXPECT_FALSE(clock.under_way(0));
  EXPECT_EQ(clock.next(), 2);
  EXPECT_NEAR(clock.now(), 0.03, 1e-8);
  EXPECT_EQ(clock.next(), 1);
  EXPECT_NEAR(clock.now(), 0.04, 1e-8);
  EXPECT_FALSE(clock.under_way(1) || clock.under_way(2));
}

// Returns the next `count` groups that finish, each with its finishing time.
std::vector<std::pair<int, double>> events(VirtualClock& clock, int count) {
  std::vector<std::pair<int, double>> all;
  for (int i = 0; i < count; ++i) {
    const int group = clock.next();
    all.emplace_back(group, clock.now());
    clock.begin(group, static_cast<std::uint64_t>(1 + i % 3), Sends::update);
  }
  return all;
}

TEST(VirtualClock, a_resumed_one_goes_on_in_the_same_way) {
  const Machine machine = machine_of(Law::lognormal, 4);
  VirtualClock clock = clock_of(machine, 4);
  for (int group = 0; group < 4; ++group) clock.begin(group, 1, Sends::update);
  events(clock, 99);
  VirtualClock resumed = clock_of(machine, 4);
  ASSERT_TRUE(resumed.restore(clock.state()));
  EXPECT_EQ(events(resumed, 999), events(clock, 999));
  EXPECT_EQ(resumed.state(), clock.state());
}

TEST(VirtualClock, refuses_a_state_that_is_none) {
  VirtualClock clock = clock_of(machine_of(Law::constant, 2), 2);
  clock.begin(0, 3, Sends::update);
  const VirtualClock::State good = clock.state();
  const auto restores = [&](auto change) {
    VirtualClock::State state = good;
    change(state);
    return clock.restore(state);
  };
  EXPECT_FALSE(restores([](auto& state) { state.now = -1; }));
  EXPECT_FALSE(restores([](auto& state) { state.now = INFINITY; }));
  EXPECT_FALSE(restores([](auto& state) { state.draws.pop_back(); }));
  EXPECT_FALSE(restores([](auto& state) { state.numbers.pop_back(); }));
  EXPECT_FALSE(restores([](auto& state) { state.numbers.push_back(0); }));
  EXPECT_FALSE(restores([](auto& state) { state.numbers.clear(); }));
  for (std::size_t i = 0; i < good.numbers.size(); ++i) {
    EXPECT_FALSE(restores([&](auto& state) { state.numbers[i] = NAN; })) << i;
    restores([&](auto& state) { state.numbers[i] = 1e15; });  // whatever it says
    EXPECT_TRUE(clock.restore(good));
  }
  EXPECT_EQ(clock.state(), good);
  EXPECT_TRUE(clock.under_way(0));
  EXPECT_FALSE(clock.under_way(1));
}

TEST(VirtualClock, the_seed_decides) {
  std::vector<std::vector<std::pair<int, double>>> all;
  for (const std::uint64_t seed : {1, 1, 2}) {
    VirtualClock clock = clock_of(machine_of(Law::exponential, 2), 2, 1, seed);
    for (const int group : {0, 1}) clock.begin(group, 1, Sends::update);
    all.push_back(events(clock, 20));
  }
  EXPECT_EQ(all[0], all[1]);
  EXPECT_NE(all[0], all[2]);
}

// The tests from here on check the shipped machine files.

Machine shipped(const std::string& name) {
  auto machine = read_machine_file(OMNI_SOURCE_DIR "/apps/machines/" + name + ".json");
  EXPECT_TRUE(machine) << machine.error().message();
  return machine ? *machine : Machine{};
}

TEST(ShippedMachines, have_the_devices_of_their_names) {
  std::map<std::string, std::size_t> devices;
  for (const auto& entry : std::filesystem::directory_iterator(OMNI_SOURCE_DIR "/apps/machines"))
    devices[entry.path().stem()] = shipped(entry.path().stem()).devices.size();
  EXPECT_EQ(devices, (std::map<std::string, std::size_t>{{"16-cores-1-gpu", 17},
                                                         {"33-nodes", 33},
                                                         {"48-threads-fast-gpu", 49},
                                                         {"48-threads-slow-gpu", 49},
                                                         {"8-gpus", 8},
                                                         {"h100", 1},
                                                         {"h200", 1}}));
}

TEST(ShippedMachines, sixteen_cores_are_as_fast_as_the_gpu) {
  const Machine machine = shipped("16-cores-1-gpu");
  for (const std::uint64_t size : {1, 64})
    EXPECT_NEAR(machine.seconds(1, size, 1e9), 16 * machine.seconds(0, size, 1e9), 1e-9);
}

constexpr double kFlops = 8e6;  // of an image, forward and backward: 6 layers of 512
constexpr int kThreads = 48;

class HogbatchServer : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Both, HogbatchServer,
                         testing::Values("48-threads-fast-gpu", "48-threads-slow-gpu"));

// Published measurements say that with fixed batch sizes the CPU makes 96 to 99 % of the updates.
TEST_P(HogbatchServer, fixed_sizes_leave_nearly_all_updates_to_the_threads) {
  const Machine machine = shipped(GetParam());
  VirtualClock clock = clock_of(machine, kThreads + 1, kFlops);
  const auto begin = [&](int group) { clock.begin(group, group == 0 ? 8192 : 1, Sends::update); };
  for (int group = 0; group <= kThreads; ++group) begin(group);
  int by_threads = 0;
  constexpr int kUpdates = 20000;
  for (int update = 0; update < kUpdates; ++update) {
    const int group = clock.next();
    by_threads += group > 0;
    begin(group);
  }
  EXPECT_GE(by_threads, 0.96 * kUpdates);
  EXPECT_LE(by_threads, 0.99 * kUpdates);
}

// With adaptive batch sizes, the CPU's published share of updates is 52 to 60 % beside the fast GPU,
// and 70 to 81 % beside the slow one. The GPU's smallest mini-batch runs at half its speed.
TEST_P(HogbatchServer, adaptive_sizes_reach_the_published_balance) {
  const Machine machine = shipped(GetParam());
  const auto smallest = static_cast<std::uint64_t>(machine.devices[0].half_size);
  const double by_threads = kThreads / machine.seconds(1, 64, kFlops);
  const double by_gpu = 1 / machine.seconds(0, smallest, kFlops);
  const double share = by_threads / (by_threads + by_gpu);
  const bool fast = std::string(GetParam()) == "48-threads-fast-gpu";
  EXPECT_GE(share, fast ? 0.52 : 0.70);
  EXPECT_LE(share, fast ? 0.60 : 0.81);
}

}  // namespace
}  // namespace omni
