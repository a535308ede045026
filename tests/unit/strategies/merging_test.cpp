// These tests check Hogbatch with fixed and with adaptive batch sizes: the rules as plain
// functions, and that trainings follow the rules.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "scheduling/forecast/machine/machine_file.hpp"
#include "scheduling/forecast/virtual_clock.hpp"
#include "scheduling/strategies/hogbatch.hpp"
#include "tests/support/deterministic_session.hpp"
#include "tests/support/group_training.hpp"
#include "tests/support/net_text.hpp"

namespace omni {
namespace {

const std::string kMergedNet = test::net(12, {8, 8, 1}, "learning_rate=0.05\nmomentum=0\n") +
                               test::convolutional(4, "tanh", "") + test::connected(3) +
                               test::layer("softmax");

MakeClock made_of(const VirtualClock& clock) {
  return [&clock](int) { return std::make_unique<VirtualClock>(clock); };
}

// The next tests check the rules as plain functions.

TEST(BatchRule, H2_moves_by_its_factor_within_the_bounds) {
  const BatchRule rule{.factor = 2};
  const GroupBatch bounds{8, 4, 32};
  EXPECT_EQ(rule.next(8, 1, 5, 9, bounds, 1), 4u) << "behind";
  EXPECT_EQ(rule.next(4, 1, 5, 9, bounds, 1), 4u);
  EXPECT_EQ(rule.next(8, 10, 5, 9, bounds, 1), 16u) << "ahead";
  EXPECT_EQ(rule.next(32, 10, 5, 9, bounds, 1), 32u);
  EXPECT_EQ(rule.next(8, 5, 5, 9, bounds, 1), 8u) << "neither";
  EXPECT_EQ(rule.next(8, 9, 5, 9, bounds, 1), 8u);
  EXPECT_EQ(rule.next(24, 10, 5, 9, {24, 8, 20}, 8), 16u) << "whole passes";
  const BatchRule slow{.factor = 1.2};
  EXPECT_EQ(slow.next(4, 10, 5, 9, {4, 4, 32}, 4), 8u) << "by a pass at least";
  EXPECT_EQ(slow.next(8, 1, 5, 9, {8, 4, 32}, 4), 4u);
  EXPECT_EQ(BatchRule{.factor = 1}.next(8, 10, 5, 9, bounds, 1), 8u);
}

// A Usage holds what the virtual clock and the rule predict for the published runs.
struct Usage {
  double share_of_cores = 0;                // of all updates
  std::map<Machine::Kind, double> rates{};  // flop/s, of what devices of the kind could reach
};
Usage usage(const std::string& machine_file, const GroupBatch& cpu, const GroupBatch& gpu) {
  const auto machine =
      read_machine_file(std::string(OMNI_SOURCE_DIR) + "/apps/machines/" + machine_file);
  EXPECT_TRUE(machine) << machine.error().message();
  const int groups = static_cast<int>(machine->devices.size());
  constexpr double kFlops = 3 * 2 * (54 * 512 + 5 * 512 * 512 + 512 * 2);  // covtype's net
  VirtualClock clock(*machine, place_on(*machine, groups, false), {.flops = kFlops}, 1);
  const BatchRule rule;
  struct Kind {
    GroupBatch bounds;
    std::uint64_t batch;
    double updates = 0, samples = 0, peak = 0;
  };
  std::map<Machine::Kind, Kind> kinds{
      {Machine::Kind::cpu, {cpu, static_cast<std::uint64_t>(cpu.start)}},
      {Machine::Kind::gpu, {gpu, static_cast<std::uint64_t>(gpu.start)}}};
  const auto kind = [&](int group) -> Kind& {
    return kinds.at(machine->devices[static_cast<std::size_t>(group)].kind);
  };
  const auto begin = [&](int group) {
    Kind& own = kind(group);
    const Kind& other = &own == &kinds.at(Machine::Kind::cpu) ? kinds.at(Machine::Kind::gpu)
                                                              : kinds.at(Machine::Kind::cpu);
    if (cpu.least != cpu.most || gpu.least != gpu.most)
      own.batch = rule.next(own.batch, own.updates, other.updates, other.updates, own.bounds, 1);
    clock.begin(group, own.batch, Sends::update);
  };
  for (const Machine::Device& device : machine->devices)
    kinds.at(device.kind).peak += device.flops_per_second;
  for (int group = 0; group < groups; ++group)
    if (kind(group).batch > 0) begin(group);
  std::uint64_t samples = 0;
  constexpr std::uint64_t kSamples = 3 * 581012;
  while (samples < kSamples) {
    const int group = clock.next();
    samples += kind(group).batch;
    kind(group).updates += 1;
    kind(group).samples += static_cast<double>(kind(group).batch);
    begin(group);
  }
  Usage found{kinds.at(Machine::Kind::cpu).updates /
              (kinds.at(Machine::Kind::cpu).updates + kinds.at(Machine::Kind::gpu).updates)};
  for (const auto& [which, each] : kinds)
    found.rates[which] = each.samples * kFlops / clock.now() / each.peak;
  return found;
}
double share_of_cores(const std::string& machine, const GroupBatch& cpu, const GroupBatch& gpu) {
  return usage(machine, cpu, gpu).share_of_cores;
}

TEST(Hogbatch, H3_shares_of_updates_are_the_published_ones) {
  for (const char* machine : {"48-threads-fast-gpu.json", "48-threads-slow-gpu.json"}) {
    const double share = share_of_cores(machine, {1, 1, 1}, {8192, 8192, 8192});
    EXPECT_GE(share, .96) << machine;
    EXPECT_LE(share, .999) << machine;
  }
  const double fast = share_of_cores("48-threads-fast-gpu.json", {1, 1, 64}, {8192, 1024, 8192});
  EXPECT_GE(fast, .50);
  EXPECT_LE(fast, .60);
  const double slow = share_of_cores("48-threads-slow-gpu.json", {1, 1, 64}, {8192, 1024, 8192});
  EXPECT_GE(slow, .70);
  EXPECT_LE(slow, .81);
}

TEST(Hogbatch, H6_a_gpu_is_used_best_by_fixed_batches_and_cores_by_both) {
  for (const char* machine : {"48-threads-fast-gpu.json", "48-threads-slow-gpu.json"}) {
    const Usage fixed = usage(machine, {1, 1, 1}, {8192, 8192, 8192}),
                adaptive = usage(machine, {1, 1, 64}, {8192, 1024, 8192}),
                alone = usage(machine, {0, 0, 0}, {8192, 8192, 8192});
    using enum Machine::Kind;
    EXPECT_GT(fixed.rates.at(gpu), 1.02 * adaptive.rates.at(gpu)) << machine;
    for (const Usage& both : {fixed, adaptive}) EXPECT_GT(both.rates.at(cpu), 0.05) << machine;
    EXPECT_EQ(alone.rates.at(cpu), 0) << machine;
    EXPECT_NEAR(alone.rates.at(gpu), fixed.rates.at(gpu), 0.01) << machine;
  }
}

// The tests from here on train.

class Merging : public test::DeterministicSession {
 protected:
  using Run = test::GroupTraining;
  static std::unique_ptr<Run> make(int groups, const std::vector<int>& passes) {
    return std::make_unique<Run>(kMergedNet, groups,
                                 Sharing{.fully_connected = FullyConnected::replicated},
                                 BuildOptions(), passes);
  }
  static MakeStrategy hogbatch(std::vector<GroupBatch> batches, std::optional<BatchRule> rule,
                               bool in_order = true, double rate_power = 0) {
    return [=](ComputeGroups& groups, const SolverOptions& solver) {
      return std::make_unique<Hogbatch>(groups, solver, in_order, batches, rate_power, rule);
    };
  }
};

TEST_F(Merging, H1_every_sample_is_taken_once) {
  for (const bool in_order : {true, false}) {
    const auto run = make(3, {2, 2, 6});
    run->train({.iterations = 10,
                .strategy = hogbatch({{2, 2, 2}, {4, 4, 4}, {18, 18, 18}}, {}, in_order)});
    EXPECT_EQ(run->done.samples, 120u);
    std::uint64_t samples = 0;
    std::map<int, int> updates;
    for (const StepReport& report : run->reports) {
      samples += report.group_samples;
      ++updates[report.group];
    }
    EXPECT_EQ(samples, 120u);
    EXPECT_EQ(updates.size(), 3u);
  }
}

TEST_F(Merging, H4_adaptive_with_factor_1_is_hogbatch) {
  const std::vector<GroupBatch> batches{{2, 2, 2}, {12, 12, 12}};
  const auto fixed = make(2, {2, 12}), adaptive = make(2, {2, 12});
  fixed->train({.iterations = 6, .strategy = hogbatch(batches, {})});
  adaptive->train({.iterations = 6, .strategy = hogbatch(batches, BatchRule{.factor = 1})});
  EXPECT_EQ(fixed->masters(), adaptive->masters());
}

TEST_F(Merging, H5_one_group_is_plain_training_without_momentum) {
  const auto plain = std::make_unique<Run>(kMergedNet);
  plain->train({.iterations = 10});
  const auto run = std::make_unique<Run>(kMergedNet, 1, Sharing{}, BuildOptions());
  run->train({.iterations = 10, .strategy = hogbatch({{12, 12, 12}}, {})});
  EXPECT_EQ(plain->masters(), run->masters());
}

TEST_F(Merging, the_rate_follows_the_size_of_the_mini_batch) {
  const auto run = make(2, {3, 12});
  const auto strategy =
      hogbatch({{3, 3, 3}, {12, 12, 12}}, {}, true, 0.5)(run->groups, run->solver);
  EXPECT_FLOAT_EQ(strategy->rule({.group = 0, .count = 3}, 0.8f).learning_rate, 0.4f);
  EXPECT_FLOAT_EQ(strategy->rule({.group = 1, .count = 12}, 0.8f).learning_rate, 0.8f);
}

// The machine has a GPU and 3 cores. With 30 samples at once, the GPU is 7 times as fast as a core
// with single samples.
TEST_F(Merging, H7_losses_by_epoch_and_by_time_come_in_the_published_order) {
  const auto machine = parse_machine(
      R"({"name": "a GPU and 3 cores", "devices": [
          {"kind": "gpu", "flops_per_second": 14e9, "half_size": 30},
          {"kind": "cpu", "count": 3, "flops_per_second": 1e9}]})",
      "machine");
  ASSERT_TRUE(machine) << machine.error().message();
  struct Trained {
    double loss_by_epoch = 0, loss_by_time = 0;  // the lower the better
  };
  const auto trained = [&](const std::vector<std::vector<std::size_t>>& devices,
                           const std::vector<GroupBatch>& batches, std::optional<BatchRule> rule) {
    std::vector<int> passes;
    for (const GroupBatch& batch : batches) passes.push_back(static_cast<int>(batch.least));
    const auto run = make(static_cast<int>(devices.size()), passes);
    VirtualClock clock(*machine, {devices}, {.flops = 1e6}, 7);
    run->train(
        {.iterations = 60, .strategy = hogbatch(batches, rule), .make_clock = made_of(clock)});
    Trained mean;
    double samples = 0, in_time = 0;
    for (const StepReport& report : run->reports) {
      const auto count = static_cast<double>(report.group_samples);
      if (report.images > 480) mean.loss_by_epoch += count * report.loss, samples += count;
      const double at = report.simulated_seconds.value_or(0);
      if (at > 0.02 && at < 0.04) mean.loss_by_time += count * report.loss, in_time += count;
    }
    mean.loss_by_epoch /= samples;
    mean.loss_by_time /= in_time;
    return mean;
  };
  const GroupBatch core{1, 1, 1}, large{30, 30, 30};
  const Trained cores = trained({{1}, {2}, {3}}, {core, core, core}, {}),
                gpu = trained({{0}}, {large}, {}),
                both = trained({{0}, {1}, {2}, {3}}, {large, core, core, core}, {}),
                adaptive = trained({{0}, {1}, {2}, {3}},
                                   {{30, 6, 30}, {1, 1, 2}, {1, 1, 2}, {1, 1, 2}}, BatchRule{});
  EXPECT_LE(cores.loss_by_epoch, adaptive.loss_by_epoch);
  EXPECT_LE(adaptive.loss_by_epoch, both.loss_by_epoch);
  EXPECT_LE(both.loss_by_epoch, gpu.loss_by_epoch);
  for (const Trained& each : {both, adaptive}) {
    EXPECT_LE(each.loss_by_time, cores.loss_by_time);
    EXPECT_LE(each.loss_by_time, gpu.loss_by_time);
  }
}

TEST_F(Merging, sizes_of_before_do_not_outlive_other_bounds) {
  const auto run = make(1, {4});
  run->train({.iterations = 10, .strategy = hogbatch({{4, 4, 4}}, {})}, 5);
  run->state = run->done;
  run->train({.iterations = 10, .strategy = hogbatch({{12, 12, 12}}, {})});
  EXPECT_EQ(run->reports.back().group_samples, 12u);
}

TEST_F(Merging, where_nobody_can_begin_the_training_ends_with_an_error) {
  const auto run = make(2, {12, 12});
  run->state.samples = 7;  // no multiple of what is computed at once
  for (const bool in_order : {true, false}) {
    TrainerOptions options{
        .iterations = 2, .strategy = hogbatch({{12, 12, 12}}, {}, in_order), .feeds = run->feeds};
    Trainer trainer(run->groups, *run->feed, nullptr, run->state, options, {});
    const Status trained = trainer.run();
    ASSERT_FALSE(trained);
    EXPECT_NE(trained.error().what.find("fewer than any group takes at once"), std::string::npos);
  }
}

// The core makes more updates, as its mini-batches are smaller. So the core's mini-batches grow,
// and the GPU's shrink.
TEST_F(Merging, adaptive_batches_follow_the_balance) {
  const auto machine = parse_machine(
      R"({"name": "a core and a GPU", "devices": [
          {"kind": "cpu", "flops_per_second": 1e9}, {"kind": "gpu", "flops_per_second": 1e9}]})",
      "machine");
  ASSERT_TRUE(machine) << machine.error().message();
  const auto sizes = [&](std::optional<BatchRule> rule) {
    const auto run = make(2, {1, 3});
    VirtualClock clock(*machine, {{{0}, {1}}}, {.flops = 1e6}, 7);
    run->train({.iterations = 20,
                .strategy = hogbatch({{1, 1, 4}, {12, 3, 12}}, rule),
                .make_clock = made_of(clock)});
    std::map<int, std::uint64_t> last;  // but for what is left at the end
    for (const StepReport& report : run->reports)
      if (report.images < 20 * 12 - 24) last[report.group] = report.group_samples;
    return last;
  };
  EXPECT_EQ(sizes({}), (std::map<int, std::uint64_t>{{0, 1}, {1, 12}})) << "fixed";
  auto adapted = sizes(BatchRule{});
  EXPECT_EQ(adapted[0], 4u);
  EXPECT_LE(adapted[1], 6u);
}

TEST_F(Merging, a_virtual_clock_gives_the_same_bits_in_two_pieces) {
  const auto machine =
      read_machine_file(std::string(OMNI_SOURCE_DIR) + "/apps/machines/48-threads-fast-gpu.json");
  ASSERT_TRUE(machine);
  const auto clock = [&] { return VirtualClock(*machine, {{{0}, {1}, {2}}}, {.flops = 1e6}, 7); };
  const MakeStrategy strategy =
      hogbatch({{12, 12, 12}, {1, 1, 4}, {1, 1, 4}}, BatchRule{.weight = 0.5});
  const auto whole = make(3, {12, 1, 1});
  VirtualClock one = clock();
  whole->train({.iterations = 12, .strategy = strategy, .make_clock = made_of(one)});

  const auto pieces = make(3, {12, 1, 1});
  const VirtualClock first = clock(), second = clock();
  // The training in one piece also comes to rest after 6 iterations, for an evaluation.
  const auto again = make(3, {12, 1, 1});
  VirtualClock halves = clock();
  again->train(
      {.iterations = 12, .evaluate_every = 6, .strategy = strategy, .make_clock = made_of(halves)});
  pieces->train({.iterations = 12, .strategy = strategy, .make_clock = made_of(first)}, 6);
  pieces->state = pieces->done;
  pieces->train({.iterations = 12, .strategy = strategy, .make_clock = made_of(second)});
  EXPECT_EQ(pieces->masters(), again->masters());
  EXPECT_EQ(pieces->done.arrivals->clock.now, again->done.arrivals->clock.now);
  EXPECT_NE(whole->reports.front().simulated_seconds, std::nullopt);
}

}  // namespace
}  // namespace omni
