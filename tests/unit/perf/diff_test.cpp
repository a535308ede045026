#include "perf/analysis/diff.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/hand_trace.hpp"

namespace omni::test {
namespace {

struct Scenario {
  unsigned seed = 1;
  double slow_pool = 1, slow_conv = 1;  // factors of their times
  double gpu_share = 0.5;               // of conv
  double first = 1;                     // factor of all times in the first two iterations
  int slow_from = -1;                   // from this iteration to the ninth, times are 30 % longer
  int iterations = 20;
  double late_pool = 1;  // factor of pool's times after a quarter of the counted iterations
  double extra = 0;      // ms of another codelet in each iteration
};

// Returns a trace whose iterations have 10 conv tasks of about 1000 us and 10 pool tasks of about
// 300 us each.
perf::Trace run(const Scenario& scenario) {
  std::mt19937 random(scenario.seed);
  std::uniform_real_distribution<double> noise(0.9, 1.1), chance(0, 1);
  HandTrace hand(1);
  hand.worker("GPU", 1);
  hand.add(trace::Layer{.id = 0, .type = "conv", .detail = ""});
  hand.add(trace::Layer{.id = 1, .type = "pool", .detail = ""});
  trace::Nanoseconds now = 0;
  for (int iteration = 0; iteration < scenario.iterations; ++iteration)
    for (int i = 0; i < 20; ++i) {
      const bool conv = i % 2 == 0;
      double length = conv ? 1e6 * scenario.slow_conv : 3e5 * scenario.slow_pool;
      if (!conv && iteration >= 2 + (scenario.iterations - 2) / 4) length *= scenario.late_pool;
      length *= noise(random) * (iteration < 2 ? scenario.first : 1);
      if (scenario.slow_from >= 0 && iteration >= scenario.slow_from && iteration < 10)
        length *= 1.3;
      const int worker = conv && chance(random) < scenario.gpu_share ? 1 : 0;
      const trace::Nanoseconds end = now + static_cast<trace::Nanoseconds>(length);
      hand.task({.codelet = conv ? "conv" : "pool",
                 .worker = worker,
                 .times = times(now, now, now, end),
                 .iteration = iteration,
                 .layer = conv ? 0 : 1});
      now = end;
      if (i > 0 || scenario.extra == 0) continue;
      now += static_cast<trace::Nanoseconds>(scenario.extra * 1e6);
      hand.task({.codelet = "extra", .times = times(end, end, end, now), .iteration = iteration});
    }
  return hand.read();
}

perf::Diff diff(const Scenario& before, const Scenario& after, double threshold = 0.15) {
  auto result = analyse_diff(run(before), run(after), {.threshold = threshold});
  EXPECT_TRUE(result);
  return *result;
}

std::vector<std::string> differing(const perf::Diff& diff) {
  std::vector<std::string> names;
  for (const perf::DiffRow& row : diff.rows)
    if (row.verdict != perf::Verdict::same)
      names.push_back(row.what + " " + row.codelet + (row.kind.empty() ? "" : " " + row.kind));
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

TEST(Diff, TwoRunsOfTheSameAreClean) {
  for (unsigned seed = 2; seed < 12; ++seed)
    EXPECT_EQ(differing(diff({}, {.seed = seed})), Names()) << seed;
}

TEST(Diff, ASlowerCodeletIsFound) {
  for (unsigned seed = 2; seed < 8; ++seed)
    EXPECT_EQ(differing(diff({}, {.seed = seed, .slow_pool = 1.4})),
              (Names{"codelet pool", "kernel pool CPU"}));
  const perf::Diff result = diff({}, {.seed = 2, .slow_pool = 1.25});
  EXPECT_EQ(differing(result), (Names{"codelet pool", "kernel pool CPU"}));
  EXPECT_TRUE(result.slower());
  const perf::DiffRow& row = result.rows[0];
  EXPECT_EQ(row.codelet, "pool");
  EXPECT_NEAR(row.change, 0.25, 0.05);
  EXPECT_NEAR(row.weight, 0.27, 0.03);
  EXPECT_EQ(row.verdict, perf::Verdict::slower);
}

TEST(Diff, AnImprovementIsNoFailure) {
  const perf::Diff result = diff({.slow_conv = 1.5}, {.seed = 2});
  EXPECT_FALSE(result.slower());
  EXPECT_TRUE(result.differs());
  EXPECT_EQ(differing(result),
            (Names{"codelet conv", "iteration ", "kernel conv CPU", "kernel conv GPU"}));
}

TEST(Diff, SlowForMostOfTheRunIsSlow) {
  const Names pool{"codelet pool", "kernel pool CPU"};
  for (unsigned seed = 2; seed < 8; ++seed) {
    const perf::Diff slower = diff({}, {.seed = seed, .late_pool = 2});
    EXPECT_EQ(differing(slower), (Names{"codelet pool", "iteration ", "kernel pool CPU"}));
    EXPECT_TRUE(slower.slower());
    EXPECT_EQ(differing(diff({}, {.seed = seed, .late_pool = 1.4})), pool) << seed;
    EXPECT_EQ(differing(diff({}, {.seed = seed, .late_pool = 0.5})), pool) << seed;
    EXPECT_EQ(differing(diff({.late_pool = 1.5}, {.seed = seed})), pool) << seed;
  }
}

TEST(Diff, ACodeletThatOneRunHasIsShown) {
  const Scenario without{.seed = 2}, with{.extra = 1};  // 1 ms of 14
  const perf::Diff added = diff(without, with);
  EXPECT_EQ(differing(added), Names{"codelet extra"});
  EXPECT_EQ(added.rows[0].verdict, perf::Verdict::only_after);
  EXPECT_TRUE(added.slower());
  EXPECT_EQ(added.rows[0].before, 0);
  EXPECT_NEAR(added.rows[0].after, 1e-3, 1e-9);
  EXPECT_EQ(added.rows[0].count_after, 18u);
  EXPECT_NEAR(added.rows[0].weight, 1. / 14, 0.01);
  const perf::Diff removed = diff(with, without);
  EXPECT_EQ(differing(removed), Names{"codelet extra"});
  EXPECT_EQ(removed.rows[0].verdict, perf::Verdict::only_before);
  EXPECT_TRUE(removed.differs());
  EXPECT_FALSE(removed.slower());
  // A codelet whose time is below the threshold has a row, but is not reported as a difference.
  const perf::Diff little = diff(without, {.extra = 0.1});
  EXPECT_EQ(differing(little), Names());
  EXPECT_TRUE(std::any_of(little.rows.begin(), little.rows.end(),
                          [](const perf::DiffRow& row) { return row.codelet == "extra"; }));
}

TEST(Diff, BelowTheThresholdIsNoChange) {
  EXPECT_EQ(differing(diff({}, {.seed = 2, .slow_pool = 1.13})), Names());
  EXPECT_EQ(differing(diff({}, {.seed = 2, .slow_pool = 1.13}, 0.05)),
            (Names{"codelet pool", "kernel pool CPU"}));
}

TEST(Diff, TheFirstIterationsDoNotCount) {
  EXPECT_EQ(differing(diff({}, {.seed = 2, .first = 10})), Names());
}

TEST(Diff, AMachineThatIsSlowForAWhileIsNoise) {
  // Half of the counted iterations are 30 % slower, which moves the medians by more than the tasks'
  // spread.
  EXPECT_EQ(differing(diff({}, {.seed = 3, .slow_from = 2, .iterations = 18})), Names());
}

// 60 % of the tasks are disturbed by other programs: the median moves, but the lower quartile does
// not. Only the sum over an iteration counts as slower.
TEST(Diff, DisturbedTasksAreNoise) {
  HandTrace before(1), after(1);
  before.add(trace::Layer{.id = 0, .type = "conv", .detail = ""});
  after.add(trace::Layer{.id = 0, .type = "conv", .detail = ""});
  for (int i = 0; i < 300; ++i) {
    const trace::Nanoseconds now = 10000 * i;
    const auto add = [&](HandTrace& hand, trace::Nanoseconds length) {
      hand.task({.times = times(0, 0, now, now + length), .iteration = i / 10, .layer = 0});
    };
    add(before, 1000 + i % 7);
    add(after, (i % 5 < 3 ? 1500 : 1000) + i % 7);
  }
  EXPECT_EQ(differing(*analyse_diff(before.read(), after.read())), Names{"codelet work"});
}

TEST(Diff, MovedTasksAreShown) {
  const perf::Diff result = diff({.gpu_share = 0.2}, {.seed = 2, .gpu_share = 0.8});
  EXPECT_EQ(differing(result), (Names{"placement conv CPU", "placement conv GPU"}));
  EXPECT_FALSE(result.slower());
}

TEST(Diff, FewValuesSayNothing) {
  EXPECT_EQ(differing(diff({.gpu_share = 0, .iterations = 1}, {.gpu_share = 0, .iterations = 1})),
            Names());
  HandTrace before(1), after(1);
  for (int i = 0; i < 4; ++i) {
    before.task({.times = times(0, 0, 10 * i, 10 * i + 1)});
    after.task({.times = times(0, 0, 10 * i, 10 * i + 5)});
  }
  EXPECT_FALSE(analyse_diff(before.read(), after.read())->differs());
}

// Returns a trace of 20 iterations with this number of slices. An image takes 100 us, an update 10
// ms. The last of three slices is smaller.
perf::Trace sliced(int slices, double slower = 1, int batch = 32) {
  HandTrace hand(1);
  hand.add(trace::Layer{.id = 0, .type = "conv", .detail = ""});
  trace::Nanoseconds now = 0;
  for (int iteration = 0; iteration < 20; ++iteration) {
    const int most = (batch + slices - 1) / slices;
    for (int slice = 0; slice < slices; ++slice) {
      const int images = std::min(most, batch - slice * most);
      const auto end = now + static_cast<trace::Nanoseconds>(1e5 * images * slower) + iteration % 5;
      hand.task({.codelet = "conv",
                 .times = times(now, now, now, end),
                 .iteration = iteration,
                 .layer = 0,
                 .flops = 1000.0 * images,
                 .slice = slice});
      now = end;
    }
    hand.task({.codelet = "update",
               .times = times(now, now, now, now + 10'000'000),
               .iteration = iteration,
               .layer = 0});
    now += 10'000'000;
  }
  perf::Trace trace = hand.read();
  trace.headers[0].batch = batch;
  return trace;
}

const perf::DiffRow* row_of(const perf::Diff& diff, const std::string& what,
                            const std::string& codelet) {
  for (const perf::DiffRow& row : diff.rows)
    if (row.what == what && row.codelet == codelet) return &row;
  return nullptr;
}

TEST(Diff, OtherSlicesAreComparedPerImage) {
  for (const int slices : {1, 3, 4, 8}) {
    const perf::Diff same = *analyse_diff(sliced(2), sliced(slices));
    EXPECT_EQ(differing(same), Names()) << slices;
    const perf::DiffRow* kernel = row_of(same, "kernel", "conv");
    ASSERT_NE(kernel, nullptr);
    EXPECT_TRUE(kernel->per_image);
    EXPECT_NEAR(kernel->before, 1e-4, 1e-6);
    EXPECT_NEAR(kernel->after, 1e-4, 1e-6);
    EXPECT_NEAR(kernel->weight, 0.24, 0.01) << "a share of all time, as before";
    EXPECT_FALSE(row_of(same, "kernel", "update")->per_image) << "once for all images";
    EXPECT_EQ(same.warnings.size(), 1u);
    const perf::Diff slower = *analyse_diff(sliced(2), sliced(slices, 1.5));
    EXPECT_EQ(row_of(slower, "kernel", "conv")->verdict, perf::Verdict::slower) << slices;
    EXPECT_NEAR(row_of(slower, "kernel", "conv")->change, 0.5, 0.01);
  }
  EXPECT_FALSE(row_of(*analyse_diff(sliced(2), sliced(2)), "kernel", "conv")->per_image);
}

TEST(Diff, OtherMiniBatchesAreComparedPerImage) {
  const perf::Diff same = *analyse_diff(sliced(2), sliced(4, 1, 64));
  EXPECT_EQ(row_of(same, "codelet", "conv")->verdict, perf::Verdict::same);
  EXPECT_TRUE(row_of(same, "iteration", "")->per_image);
  EXPECT_FALSE(row_of(same, "kernel", "conv")->per_image) << "slices of 16 images in both";
}

TEST(Diff, OptionsThatDifferAreNamed) {
  perf::Trace before = run({}), after = run({});
  before.headers[0].command = "omni-run --net toy --slice 8 --trace a --strict --title 'a b'";
  after.headers[0].command = "build/omni-run --net toy --trace=b --rate=-1 --seed 3 --title 'a c'";
  EXPECT_EQ(analyse_diff(before, after)->warnings,
            (Names{"different --rate: none and '-1'", "different --seed: none and '3'",
                   "different --slice: '8' and none", "different --strict: given and none",
                   "different --title: 'a b' and 'a c'"}));
  after.headers[0].command = "/bin/omni-run --net=toy --slice=8 --trace x --strict --title 'a b'";
  EXPECT_EQ(analyse_diff(before, after)->warnings, Names());
}

TEST(Diff, DifferentNetsAreRefused) {
  perf::Trace before = run({}), after = run({});
  after.headers[0].batch = 7;
  EXPECT_EQ(analyse_diff(before, after)->warnings, Names{"different batch: 32 and 7"});
  after.headers[0].net = "other";
  const auto refused = analyse_diff(before, after);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "runs of different nets: 'toy' and 'other' (compare two runs of the same command)");
}

}  // namespace
}  // namespace omni::test
