#include "perf/analysis/bounds.hpp"

#include <gtest/gtest.h>

#include "perf/analysis/critical_path.hpp"
#include "tests/support/hand_trace.hpp"

namespace omni::test {
namespace {

perf::Bounds bounds_of(const HandTrace& hand) {
  const perf::Trace trace = hand.read();
  return analyse_bounds(trace, perf::Dependencies(trace));
}

HandTrace chain(int workers) {
  HandTrace hand(workers);
  hand.task({.codelet = "a", .times = times(0, 0, 0, 1000), .writes = {"x"}});
  hand.task({.codelet = "b", .times = times(0, 1000, 1500, 3000), .updates = {"x"}});
  hand.task({.codelet = "a", .times = times(0, 3000, 3000, 4000), .updates = {"x"}});
  return hand;
}

HandTrace fork_join() {
  HandTrace hand(2);
  hand.task({.codelet = "fork", .worker = 0, .times = times(0, 0, 0, 1000), .writes = {"a"}});
  hand.task({.codelet = "left",
             .worker = 0,
             .times = times(0, 1000, 1000, 3000),
             .reads = {"a"},
             .writes = {"b"}});
  hand.task({.codelet = "right",
             .worker = 1,
             .times = times(0, 1000, 1000, 5000),
             .reads = {"a"},
             .writes = {"c"}});
  hand.task(
      {.codelet = "join", .worker = 0, .times = times(0, 5000, 5000, 6000), .reads = {"b", "c"}});
  return hand;
}

TEST(Bounds, Chain) {
  const perf::Bounds bounds = bounds_of(chain(2));
  EXPECT_DOUBLE_EQ(bounds.wall, 4000e-9);
  EXPECT_DOUBLE_EQ(bounds.critical_path, 3500e-9);
  EXPECT_DOUBLE_EQ(bounds.area, 1750e-9);
  EXPECT_DOUBLE_EQ(bounds.efficiency(), 3500.0 / 4000);
}

TEST(Bounds, ForkJoin) {
  const perf::Bounds bounds = bounds_of(fork_join());
  EXPECT_DOUBLE_EQ(bounds.critical_path, 6000e-9);
  EXPECT_DOUBLE_EQ(bounds.area, 4000e-9);
  EXPECT_DOUBLE_EQ(bounds.efficiency(), 1);
}

TEST(Bounds, CommutingUpdatesDoNotWaitForEachOther) {
  HandTrace hand(1);
  hand.task({.times = times(0, 0, 0, 10), .writes = {"sum"}});
  // The second of the three adding tasks is the longest one. Like the first, it waits only for the
  // writing task.
  hand.task({.times = times(0, 10, 10, 20), .adds = {"sum"}});
  hand.task({.times = times(0, 10, 20, 50), .adds = {"sum"}});
  hand.task({.times = times(0, 10, 50, 70), .adds = {"sum"}});
  hand.task({.times = times(0, 70, 70, 80), .reads = {"sum"}});
  EXPECT_DOUBLE_EQ(bounds_of(hand).critical_path, 50e-9);
}

// Ten tasks take 1 us on a GPU and 4 us on a CPU; ten more take 2 us on both. The optimum is 15 us:
// the GPU does 10 * 1 + 2.5 * 2, the CPU 7.5 * 2.
TEST(Bounds, TwoKindsExactly) {
  HandTrace hand(1);
  hand.worker("GPU", 1);
  trace::Nanoseconds cpu = 0, gpu = 0;
  const auto run = [&](const char* codelet, int worker, trace::Nanoseconds length) {
    trace::Nanoseconds& now = worker == 0 ? cpu : gpu;
    hand.task({.codelet = codelet, .worker = worker, .times = times(0, 0, now, now + length)});
    now += length;
  };
  for (int i = 0; i < 5; ++i) {
    run("fast", 0, 4000);
    run("fast", 1, 1000);
    run("even", 0, 2000);
    run("even", 1, 2000);
  }
  const perf::Bounds bounds = bounds_of(hand);
  EXPECT_DOUBLE_EQ(bounds.area, 15000e-9);
  EXPECT_EQ(bounds.classes, 2u);
  EXPECT_EQ(bounds.classes_on_one_kind, 0u);
  ASSERT_EQ(bounds.kinds.size(), 2u);
  EXPECT_DOUBLE_EQ(bounds.kinds[0].weight + bounds.kinds[1].weight, 1);
}

TEST(Bounds, AKindThatNeverRanAClassCannot) {
  HandTrace hand(1);
  hand.worker("GPU", 1);
  hand.task({.codelet = "cpu only", .worker = 0, .times = times(0, 0, 0, 3000)});
  hand.task({.codelet = "gpu only", .worker = 1, .times = times(0, 0, 0, 1000)});
  const perf::Bounds bounds = bounds_of(hand);
  EXPECT_DOUBLE_EQ(bounds.area, 3000e-9);
  EXPECT_EQ(bounds.classes_on_one_kind, 2u);
}

// Each of three workers of different kinds runs one task of 3 us, which is also the optimum.
TEST(Bounds, ThreeKinds) {
  HandTrace hand(1);
  hand.worker("GPU", 1);
  hand.worker("FPGA", 2);
  for (int worker = 0; worker < 3; ++worker)
    hand.task({.worker = worker, .times = times(0, 0, 0, 3000)});
  EXPECT_DOUBLE_EQ(bounds_of(hand).area, 3000e-9);
  // Another task of 6 us runs only on the CPU. The optimum is 6 us: the GPU and the FPGA do the
  // other three tasks in 4.5 us.
  hand.task({.codelet = "cpu only", .worker = 0, .times = times(0, 0, 3000, 9000)});
  EXPECT_NEAR(bounds_of(hand).area, 6000e-9, 1e-15);
}

TEST(CriticalPath, NamesTheCodeletsOnIt) {
  const perf::Trace trace = fork_join().read();
  const perf::Dependencies dependencies(trace);
  const perf::CriticalPath path = analyse_critical_path(trace, dependencies);
  EXPECT_EQ(path.tasks, (std::vector<std::uint32_t>{0, 2, 3}));
  ASSERT_EQ(path.rows.size(), 3u);
  EXPECT_EQ(path.rows[0].codelet, "right");
  EXPECT_DOUBLE_EQ(path.rows[0].seconds, 4000e-9);
  EXPECT_DOUBLE_EQ(path.length, 6000e-9);
}

TEST(CriticalPath, ReplayOfForkJoin) {
  const perf::Trace trace = fork_join().read();
  const perf::Dependencies dependencies(trace);
  const perf::CriticalPath path = analyse_critical_path(trace, dependencies, 2);
  EXPECT_DOUBLE_EQ(path.replayed, 6000e-9);
  ASSERT_EQ(path.what_if.size(), 4u);
  EXPECT_EQ(path.what_if[0].codelet, "right");
  EXPECT_DOUBLE_EQ(path.what_if[0].seconds, 4000e-9);
  EXPECT_EQ(path.what_if[3].codelet, "left");
  EXPECT_DOUBLE_EQ(path.what_if[3].saved, 0);
  // With "right" four times as fast, the branch "left" becomes the longer one.
  const auto more = analyse_critical_path(trace, dependencies, 4, {"right"});
  ASSERT_EQ(more.what_if.size(), 1u);
  EXPECT_DOUBLE_EQ(more.what_if[0].seconds, 4000e-9);
}

TEST(CriticalPath, ReplayDropsTheWaitForAWorkerAndKeepsItsOwnCost) {
  const perf::Trace trace = chain(1).read();
  EXPECT_DOUBLE_EQ(analyse_critical_path(trace, perf::Dependencies(trace)).replayed, 3500e-9);
  HandTrace hand(1);
  hand.task({.times = {0, 0, 100, 150, 150, 400, 450, 1450, 1500}});
  const perf::Trace fetched = hand.read();
  EXPECT_DOUBLE_EQ(analyse_critical_path(fetched, perf::Dependencies(fetched)).replayed, 1400e-9);
}

TEST(CriticalPath, ReplayMovesSubmissionsBehindTheirWait) {
  HandTrace hand(2);
  hand.task({.codelet = "first", .worker = 0, .times = times(0, 0, 0, 1000), .writes = {"a"}});
  hand.add(trace::Wait{.for_all = true, .from = 100, .to = 1010});
  // The second task is independent of the first one, but it was submitted 40 ns after the wait.
  hand.task({.codelet = "second", .worker = 1, .times = times(1050, 1050, 1050, 2050)});
  const perf::Trace trace = hand.read();
  const auto path = analyse_critical_path(trace, perf::Dependencies(trace), 2, {"first"});
  EXPECT_DOUBLE_EQ(path.replayed, 2050e-9);
  EXPECT_DOUBLE_EQ(path.what_if[0].saved, 500e-9);
  // With "first" 1000 times as fast, it ends before the thread waits at 100 ns, so the thread does
  // not wait.
  const auto more = analyse_critical_path(trace, perf::Dependencies(trace), 1000, {"first"});
  EXPECT_NEAR(more.what_if[0].seconds, (100 + 40 + 1000) * 1e-9, 1e-15);
}

TEST(CriticalPath, ReplayKeepsCommutingTasksApart) {
  HandTrace hand(2);
  hand.task({.worker = 0, .times = times(0, 0, 0, 1000), .adds = {"sum"}});
  hand.task({.worker = 1, .times = times(0, 0, 1000, 2000), .adds = {"sum"}});
  const perf::Trace trace = hand.read();
  EXPECT_DOUBLE_EQ(analyse_critical_path(trace, perf::Dependencies(trace)).replayed, 2000e-9);
}

}  // namespace
}  // namespace omni::test
