// These tests check how long workers computed, and for which reasons they were idle.
#include "perf/analysis/summary.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "perf/analysis/idle.hpp"
#include "tests/support/hand_trace.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {
namespace {

using perf::Part;

// The parts are compute, data, scheduling, other_workers, nothing_ready, submission_late, barrier,
// other_nodes, and start_up.
using Parts = std::array<trace::Nanoseconds, perf::kPartCount>;

std::vector<Parts> parts_of(const perf::Trace& trace) {
  std::vector<Parts> all;
  for (const perf::WorkerTime& worker : analyse_idle(trace).workers) {
    EXPECT_EQ(std::accumulate(worker.parts.begin(), worker.parts.end(), trace::Nanoseconds{0}),
              trace.end - trace.begin);
    all.push_back(worker.parts);
  }
  return all;
}

TEST(Idle, ChainLeavesTheSecondWorkerNothingReady) {
  HandTrace hand(2);
  hand.task({.worker = 0, .times = times(0, 0, 0, 10), .writes = {"a"}});
  hand.task({.worker = 0, .times = times(0, 10, 10, 30), .updates = {"a"}});
  hand.task({.worker = 0, .times = times(0, 30, 30, 60), .updates = {"a"}});
  // Until 30 a task waits for another one (nothing_ready). After 30 no further task is submitted
  // (submission_late).
  EXPECT_EQ(parts_of(hand.read()),
            (std::vector<Parts>{{60, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 30, 30, 0}}));
}

TEST(Idle, ForkJoin) {
  HandTrace hand(2);
  hand.task({.worker = 0, .times = times(0, 0, 0, 10), .writes = {"a"}});
  hand.task({.worker = 0, .times = times(0, 10, 10, 30), .reads = {"a"}, .writes = {"b"}});
  hand.task({.worker = 1, .times = times(0, 10, 10, 50), .reads = {"a"}, .writes = {"c"}});
  hand.task({.worker = 0, .times = times(0, 50, 50, 60), .reads = {"b", "c"}, .writes = {"d"}});
  hand.add(trace::Wait{.for_all = true, .from = 1, .to = 60});
  EXPECT_EQ(parts_of(hand.read()),
            (std::vector<Parts>{{40, 0, 0, 0, 20, 0, 0}, {40, 0, 0, 0, 10, 0, 10}}));
}

TEST(Idle, AMessageIsAwaitedWhileNobodyComputes) {
  HandTrace hand(2);
  hand.task({.worker = 0, .times = times(0, 0, 0, 30)});
  hand.task({.worker = 0, .times = times(0, 80, 80, 100)});
  hand.add(trace::Transfer{.bytes = 8, .from = 10, .to = 70, .from_rank = 1});
  hand.add(trace::Transfer{.bytes = 8, .from = 70, .to = 80});  // from another memory
  EXPECT_EQ(parts_of(hand.read()),
            (std::vector<Parts>{{50, 0, 0, 0, 10, 0, 0, 40}, {0, 0, 0, 0, 40, 20, 0, 40}}));
}

TEST(Idle, TransferBound) {
  HandTrace hand;
  for (int i = 0; i < 3; ++i) {
    const trace::Nanoseconds t = 100 * i;
    hand.task({.times = {t, t, t, t + 5, t + 5, t + 75, t + 80, t + 98, t + 100}});
  }
  EXPECT_EQ(parts_of(hand.read()), (std::vector<Parts>{{54, 210, 36, 0, 0, 0, 0}}));
}

TEST(Idle, SubmissionLateAndBarrier) {
  HandTrace hand;
  hand.add(trace::IterationStart{.iteration = 0, .at = 0});
  hand.task({.times = times(10, 10, 10, 20)});
  hand.add(trace::Wait{.for_all = true, .from = 30, .to = 45});
  hand.add(trace::Wait{.for_all = false, .from = 45, .to = 50});
  hand.task({.times = times(70, 70, 70, 100)});
  EXPECT_EQ(parts_of(hand.read()), (std::vector<Parts>{{40, 0, 0, 0, 0, 40, 20}}));
}

TEST(Idle, BeforeTheFirstIterationIsStartUp) {
  HandTrace hand;
  hand.add(trace::Transfer{.bytes = 8, .from = 0, .to = 5, .from_rank = 1});  // ranks connect
  hand.task({.times = times(20, 20, 20, 30)});                                // of no iteration
  hand.add(trace::Wait{.for_all = true, .from = 35, .to = 40});
  hand.add(trace::IterationStart{.iteration = 7, .at = 60});
  hand.add(trace::IterationStart{.iteration = 8, .at = 80});
  hand.task({.times = times(65, 65, 65, 90)});
  EXPECT_EQ(parts_of(hand.read()), (std::vector<Parts>{{35, 0, 0, 0, 0, 5, 0, 0, 50}}));
}

TEST(Idle, EachRankHasItsOwnStart) {
  HandTrace one(1, 0), two(1, 1);
  one.add(trace::IterationStart{.iteration = 0, .at = 10});
  one.task({.times = times(10, 10, 10, 100)});
  two.add(trace::IterationStart{.iteration = 0, .at = 40});
  two.task({.times = times(50, 50, 50, 100)});
  const TemporaryDirectory folder;
  put(folder / "rank-0.jsonl", one.text());
  put(folder / "rank-1.jsonl", two.text());
  const auto trace = perf::read_trace(folder.path());
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(parts_of(*trace), (std::vector<Parts>{{90}, {50, 0, 0, 0, 0, 10, 0, 0, 30}}));
}

TEST(Idle, NothingReadyNeedsSubmittedTasks) {
  HandTrace hand(2);
  hand.task({.worker = 0, .times = times(0, 0, 0, 100), .writes = {"a"}});
  // The second task was submitted at 60. Until then worker 1 was idle because of the late
  // submission.
  hand.task({.worker = 1, .times = times(60, 100, 100, 110), .reads = {"a"}});
  EXPECT_EQ(parts_of(hand.read()),
            (std::vector<Parts>{{100, 0, 0, 0, 0, 10, 0}, {10, 0, 0, 0, 40, 60, 0}}));
}

TEST(Idle, ReadyTasksOfAnotherWorkerAreScheduling) {
  HandTrace hand(2);
  hand.task({.worker = 0, .times = times(0, 0, 0, 50)});
  hand.task({.worker = 0, .times = times(0, 0, 50, 100)});  // worker 1 could have had it
  EXPECT_EQ(parts_of(hand.read()),
            (std::vector<Parts>{{100, 0, 0, 0, 0, 0, 0}, {0, 0, 50, 0, 0, 50, 0}}));
}

TEST(Idle, TasksThatOnlyOtherWorkersMayRunAreNoScheduling) {
  HandTrace hand(3);
  hand.add(trace::Eligible{.id = 4, .workers = {0, 2}});
  hand.task({.worker = 0, .times = times(0, 0, 0, 50)});
  hand.task({.worker = 0, .times = times(0, 0, 50, 100), .eligible = 4});
  // The second task may run on workers 0 and 2, not on worker 1.
  EXPECT_EQ(parts_of(hand.read()),
            (std::vector<Parts>{
                {100, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 50, 0, 50, 0}, {0, 0, 50, 0, 0, 50, 0}}));
}

TEST(Idle, ReadyComesBeforeBlockedBeforeWaiting) {
  HandTrace hand(2);
  hand.task({.worker = 0, .times = times(0, 0, 40, 50), .writes = {"a"}});
  hand.task({.worker = 0, .times = times(0, 50, 60, 70), .updates = {"a"}});
  hand.add(trace::Wait{.for_all = true, .from = 0, .to = 80});
  // From 0 to 40 the first task is ready. From 40 to 50 the second is blocked, from 50 to 60 ready.
  // Then only the barrier remains.
  EXPECT_EQ(parts_of(hand.read())[1], (Parts{0, 0, 50, 0, 10, 0, 20}));
}

TEST(Idle, OverlappingTasksCountOnce) {
  HandTrace hand;
  hand.task({.times = {0, 0, 0, 0, 0, 10, 10, 50, 50}});
  // This task's data are fetched while the first task computes, and for 10 more, from 50 to 60.
  hand.task({.times = {0, 0, 20, 25, 25, 60, 65, 80, 85}});
  EXPECT_EQ(parts_of(hand.read()), (std::vector<Parts>{{55, 20, 10, 0, 0, 0, 0}}));
}

TEST(Idle, ProcessesHaveTheirOwnCauses) {
  HandTrace one(1, 0), two(1, 1);
  one.task({.times = times(0, 0, 0, 10)});
  one.task({.times = times(0, 80, 90, 100)});
  two.task({.times = times(0, 0, 0, 10)});
  const TemporaryDirectory folder;
  put(folder / "rank-0.jsonl", one.text());
  put(folder / "rank-1.jsonl", two.text());
  const auto trace = perf::read_trace(folder.path());
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(parts_of(*trace),
            (std::vector<Parts>{{20, 0, 10, 0, 70, 0, 0}, {10, 0, 0, 0, 0, 90, 0}}));
}

TEST(Idle, OfIterationsThatAreWarm) {
  HandTrace hand;
  hand.task({.times = times(0, 0, 5, 1005), .iteration = 0});
  hand.task({.times = times(0, 0, 1015, 1115), .iteration = 1});
  hand.task({.times = times(0, 0, 1120, 1220), .iteration = 2});
  hand.task({.times = times(0, 0, 5000, 9000)});  // a save, say
  const perf::Trace trace = hand.read();
  // Each iteration has only one task, so the iteration is warm when this task ends.
  const auto one = analyse_idle(trace, 1), two = analyse_idle(trace, 2);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->workers[0].parts, (Parts{200, 0, 15, 0, 0, 0, 0}));
  EXPECT_DOUBLE_EQ(one->wall, 215e-9);
  EXPECT_EQ(two->workers[0].parts, (Parts{100, 0, 5, 0, 0, 0, 0}));
  EXPECT_FALSE(analyse_idle(trace, 3));
  EXPECT_EQ(analyse_idle(trace, 0)->workers[0].parts, parts_of(trace)[0]);
}

TEST(Idle, AnEmptyTraceHasNoTime) {
  const perf::Idle idle = analyse_idle(HandTrace(1).read());
  EXPECT_EQ(idle.wall, 0);
  EXPECT_EQ(idle.share[0], 0);
}

}  // namespace
}  // namespace omni::test
