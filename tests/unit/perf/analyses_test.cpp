// These tests check, on traces with known results, the analyses that have no test file of their
// own.
#include <gtest/gtest.h>

#include <cmath>

#include "perf/analysis/iterations.hpp"
#include "perf/analysis/kernels.hpp"
#include "perf/analysis/memory.hpp"
#include "perf/analysis/models.hpp"
#include "perf/analysis/staleness.hpp"
#include "perf/analysis/summary.hpp"
#include "perf/analysis/transfers.hpp"
#include "tests/support/hand_trace.hpp"

namespace omni::test {
namespace {

TEST(Statistics, MedianAndDeviation) {
  const perf::Spread odd = perf::spread_of({5, 1, 100});
  EXPECT_EQ(odd.median, 5);
  EXPECT_EQ(odd.mad, 4);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 100);
  const perf::Spread even = perf::spread_of({4, 1, 3, 2});
  EXPECT_EQ(even.median, 2.5);
  EXPECT_EQ(even.mad, 1);
  EXPECT_EQ(even.mean, 2.5);
  EXPECT_EQ(perf::spread_of({}).count, 0u);
}

TEST(SliceSteps, AreTakenOnOneWorkerOrTwo) {
  HandTrace hand(2);
  hand.add(trace::Layer{.id = 0, .type = "conv", .detail = ""});
  const auto task = [&](std::int32_t worker, trace::Nanoseconds start, std::int32_t slice,
                        std::vector<std::string> reads, const char* writes) {
    hand.task({.worker = worker,
               .times = times(0, 0, start, start + 5),
               .reads = std::move(reads),
               .writes = {writes},
               .layer = 0,
               .slice = slice});
  };
  task(0, 10, 0, {}, "a");
  task(0, 20, 0, {"a"}, "b");       // kept
  task(1, 30, 0, {"b"}, "c");       // moved
  task(1, 10, 1, {}, "d");          // waits for nothing
  task(1, 40, 1, {"c", "d"}, "e");  // released by another slice
  task(0, 50, -1, {"e"}, "f");      // of all slices
  task(0, 60, 1, {"f"}, "g");       // released by one of all slices
  task(0, 70, 1, {"d", "g"}, "h");  // kept: "g" came last
  const perf::SliceSteps steps = perf::count_slice_steps(hand.read());
  EXPECT_EQ(steps.all, 3u);
  EXPECT_EQ(steps.kept, 2u);
  EXPECT_TRUE(std::isnan(perf::count_slice_steps(HandTrace(1).read()).share()));
}

HandTrace two_kernels() {
  HandTrace hand(1);
  hand.add(trace::Layer{.id = 0, .type = "conv", .detail = "3x3"});
  hand.add(trace::Layer{.id = 1, .type = "conv", .detail = ""});
  for (int i = 0; i < 4; ++i)
    hand.task({.codelet = "conv",
               .times = times(0, 0, 1000 * i, 1000 * i + 600),
               .layer = i % 2,
               .flops = 3000,
               .bytes = 1200});
  hand.task({.codelet = "copy", .times = times(0, 0, 4000, 5600), .bytes = 800});
  return hand;
}

TEST(Kernels, TimesAndSpeeds) {
  const perf::Kernels kernels = analyse_kernels(two_kernels().read());
  EXPECT_DOUBLE_EQ(kernels.compute, 4e-6);
  ASSERT_EQ(kernels.rows.size(), 2u);
  const perf::KernelRow& conv = kernels.rows[0];
  EXPECT_EQ(conv.codelet, "conv");
  EXPECT_EQ(conv.kind, "CPU");
  EXPECT_EQ(conv.seconds.count, 4u);
  EXPECT_DOUBLE_EQ(conv.seconds.median, 600e-9);
  EXPECT_DOUBLE_EQ(conv.share, 0.6);
  EXPECT_DOUBLE_EQ(conv.gflops(), 5);
  EXPECT_DOUBLE_EQ(conv.gbytes(), 2);
}

TEST(Kernels, ByLayer) {
  const perf::Kernels kernels = analyse_kernels(two_kernels().read(), true);
  ASSERT_EQ(kernels.rows.size(), 3u);
  EXPECT_EQ(kernels.rows[0].codelet, "copy");
  EXPECT_EQ(kernels.rows[0].layer, "");
  EXPECT_EQ(kernels.rows[1].layer, "0 conv 3x3");
  EXPECT_EQ(kernels.rows[2].layer, "1 conv");
  EXPECT_EQ(kernels.rows[2].seconds.count, 2u);
}

TEST(Roofline, PlacesEveryCodelet) {
  HandTrace hand = two_kernels();
  hand.task({.codelet = "gemm", .times = times(0, 0, 6000, 7000), .flops = 9000, .bytes = 10});
  hand.task({.codelet = "secret", .times = times(0, 0, 7000, 7010)});
  hand.add(trace::Peak{.what = "gemm", .kind = "CPU", .per_worker = 10e9, .together = 0});
  hand.add(trace::Peak{.what = "copy", .kind = "CPU", .per_worker = 2.5e9, .together = 0});
  const perf::Roofline roofline = analyse_roofline(hand.read());
  ASSERT_EQ(roofline.rows.size(), 4u);
  const perf::RooflineRow& copy = roofline.rows[0];  // loses 1600 ns * (1 - 0.5 / 2.5)
  EXPECT_EQ(copy.codelet, "copy");
  EXPECT_EQ(copy.bound, "memory");
  EXPECT_DOUBLE_EQ(copy.fraction, 0.2);
  EXPECT_DOUBLE_EQ(copy.lost, 1280e-9);
  const perf::RooflineRow& conv = roofline.rows[1];  // 2.5 flop/B: 6.25 Gflop/s at most
  EXPECT_EQ(conv.bound, "memory");
  EXPECT_DOUBLE_EQ(conv.intensity, 2.5);
  EXPECT_DOUBLE_EQ(conv.roof, 6.25e9);
  EXPECT_DOUBLE_EQ(conv.attained, 5e9);
  EXPECT_DOUBLE_EQ(conv.fraction, 0.8);
  const perf::RooflineRow& gemm = roofline.rows[2];
  EXPECT_EQ(gemm.bound, "compute");
  EXPECT_DOUBLE_EQ(gemm.fraction, 0.9);
  EXPECT_EQ(roofline.rows[3].bound, "unknown");
}

TEST(Models, ErrorsWorstAndOutliers) {
  HandTrace hand(1);
  for (int i = 0; i < 20; ++i) {
    const trace::Nanoseconds start = 10000 * i, length = i == 7 ? 2000 : 1000 + i % 3;
    hand.task({.times = times(0, 0, start, start + length), .predicted = i == 0 ? NAN : 1100.0});
  }
  const perf::Models models = analyse_models(hand.read());
  ASSERT_EQ(models.rows.size(), 1u);
  EXPECT_EQ(models.rows[0].predicted, 19u);
  EXPECT_NEAR(models.rows[0].mape, (18 * 0.099 + 0.45) / 19, 1e-3);
  EXPECT_NEAR(models.rows[0].bias, (18 * 0.099 - 0.45) / 19, 1e-3);
  EXPECT_DOUBLE_EQ(models.without_prediction, 0.05);
  ASSERT_EQ(models.worst.size(), 10u);
  EXPECT_EQ(models.worst[0].task, 7u);
  EXPECT_DOUBLE_EQ(models.worst[0].expected, 1100e-9);
  ASSERT_EQ(models.outlier_count, 1u);
  EXPECT_EQ(models.outliers[0].task, 7u);
  EXPECT_NEAR(models.outlier_seconds, 999e-9, 1e-12);
}

TEST(Transfers, BusyAndOverlapped) {
  HandTrace hand(1);
  hand.worker("GPU", 1);
  const auto moved = [&](int from, int to, trace::Nanoseconds start, trace::Nanoseconds end) {
    hand.add(trace::Transfer{
        .from_node = from, .to_node = to, .bytes = 1000, .count = 1, .from = start, .to = end});
  };
  moved(0, 1, 0, 100);
  moved(0, 1, 50, 200);
  moved(0, 1, 300, 400);
  moved(1, 0, 0, 50);
  hand.task({.worker = 1, .times = times(0, 0, 150, 350)});
  hand.task({.worker = 0, .times = times(0, 0, 500, 600)});
  const perf::Transfers transfers = analyse_transfers(hand.read());
  ASSERT_EQ(transfers.links.size(), 2u);
  const perf::Link& up = transfers.links[0];
  EXPECT_EQ(up.to_node, 1);
  EXPECT_EQ(up.count, 3u);
  EXPECT_DOUBLE_EQ(up.busy, 300e-9);
  EXPECT_DOUBLE_EQ(up.overlapped, 1.0 / 3);
  EXPECT_DOUBLE_EQ(up.bandwidth(), 1e10);
  EXPECT_DOUBLE_EQ(transfers.links[1].overlapped, 0);
}

TEST(Transfers, MessagesAreHiddenWhereAnyWorkerOfTheRankComputes) {
  HandTrace hand(1);
  hand.worker("GPU", 1);
  hand.add(trace::Transfer{.bytes = 1000, .from = 0, .to = 100, .from_rank = 3});
  hand.add(trace::Transfer{.bytes = 10, .from = 0, .to = 100});
  hand.task({.worker = 1, .times = times(0, 0, 50, 150)});
  const perf::Transfers transfers = analyse_transfers(hand.read());
  ASSERT_EQ(transfers.links.size(), 2u);
  EXPECT_EQ(transfers.links[0].from_rank, 3);
  EXPECT_DOUBLE_EQ(transfers.links[0].overlapped, 0.5);
  EXPECT_EQ(transfers.links[1].from_rank, -1);
  EXPECT_DOUBLE_EQ(transfers.links[1].overlapped, 0);
}

TEST(Async, StalenessByGroupAndIteration) {
  HandTrace hand(1);
  for (const auto& [iteration, group, staleness] :
       {std::tuple(0, 0, 0), std::tuple(0, 1, 1), std::tuple(1, 0, 1), std::tuple(1, 1, 4)})
    hand.add(
        trace::Exchange{.iteration = iteration, .group = group, .staleness = staleness, .at = 10});
  const perf::Async async = analyse_async(hand.read());
  EXPECT_EQ(async.all.exchanges, 4u);
  EXPECT_DOUBLE_EQ(async.all.mean, 1.5);
  EXPECT_EQ(async.all.max, 4);
  EXPECT_EQ(async.all.histogram, (std::map<std::int64_t, std::size_t>{{0, 1}, {1, 2}, {4, 1}}));
  ASSERT_EQ(async.groups.size(), 2u);
  EXPECT_DOUBLE_EQ(async.groups[1].staleness.mean, 2.5);
  EXPECT_EQ(async.groups[1].iterations, 2u);
  ASSERT_EQ(async.iterations.size(), 2u);
  EXPECT_DOUBLE_EQ(async.iterations[1].mean, 2.5);
}

TEST(Async, ExpectedStalenessFollowsFromTheUpdatesOfTheOthers) {
  HandTrace hand(1);
  for (const int group : {0, 0, 0, 1, 2})
    hand.add(trace::Exchange{.iteration = 0, .group = group, .staleness = 2, .at = 10});
  const perf::Async async = analyse_async(hand.read());
  EXPECT_EQ(async.meetings, 0u);
  EXPECT_DOUBLE_EQ(async.expected, 2);
  EXPECT_DOUBLE_EQ(async.groups[0].share, 0.6);
  EXPECT_DOUBLE_EQ(async.groups[0].expected, 2.0 / 3);
  EXPECT_DOUBLE_EQ(async.groups[1].expected, 4);
}

TEST(Async, ModelsThatMeetHaveNoExpectedStaleness) {
  HandTrace hand(1);
  hand.add(trace::Exchange{.iteration = 0, .group = 0, .staleness = 0, .at = 10});
  hand.add(trace::Meeting{.number = 0, .groups = 2, .at = 20});
  const perf::Async async = analyse_async(hand.read());
  EXPECT_EQ(async.meetings, 1u);
  EXPECT_TRUE(std::isnan(async.expected));
  EXPECT_TRUE(std::isnan(async.groups[0].expected));
}

TEST(Memory, CountersAndLargestData) {
  HandTrace hand(1);
  for (int i = 0; i < 12; ++i)
    hand.add(trace::Data{.id = static_cast<std::uint32_t>(i),
                         .name = fmt::format("t{}", i),
                         .bytes = static_cast<std::uint64_t>(i)});
  // The records are not sorted by time.
  hand.add(trace::Counter{.name = "memory.resident", .at = 20, .value = 150});
  hand.add(trace::Counter{.name = "memory.resident", .at = 10, .value = 100});
  hand.add(trace::Counter{.name = "memory.resident", .at = 15, .value = 200});
  for (const double value : {0.0, 2.0, 0.0, 1.0})
    hand.add(trace::Counter{.name = "feed.decoded", .at = 1, .value = value});
  const perf::Trace trace = hand.read();
  const perf::Memory memory = analyse_memory(trace);
  ASSERT_EQ(memory.memory.size(), 1u);
  EXPECT_EQ(memory.memory[0].first, 100);
  EXPECT_EQ(memory.memory[0].max, 200);
  EXPECT_EQ(memory.memory[0].growth(), 50);
  ASSERT_EQ(memory.feed.size(), 1u);
  EXPECT_EQ(memory.feed[0].zero_share, 0.5);
  ASSERT_EQ(memory.largest.size(), 10u);
  EXPECT_EQ(memory.largest[0].name, "t11");
  EXPECT_EQ(memory.largest[9].name, "t2");
  EXPECT_EQ(memory.data_bytes, 66);
}

TEST(Summary, ALateFeedIsALossOnlyWhereTasksWait) {
  const auto losses = [](trace::Nanoseconds ready) {
    HandTrace hand(1);
    hand.task({.times = times(0, 0, 0, 50), .writes = {"images"}});
    hand.task({.times = times(0, ready, ready, 100 + ready - 50), .reads = {"images"}});
    for (const double value : {0.0, 2.0, 0.0, 1.0})
      hand.add(trace::Counter{.name = "feed.decoded", .at = 1, .value = value});
    return analyse_summary(hand.read()).losses;
  };
  EXPECT_TRUE(losses(50).empty()) << "nothing was decoded ahead, and no worker was idle";
  const auto late = losses(75);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_DOUBLE_EQ(late[0].share, 0.2);
  EXPECT_EQ(late[0].text,
            "each submitted task waits for the result of another one (in 50 % of the checks no "
            "mini-batch was decoded ahead)");
}

TEST(Iterations, FromOneHalfToTheNext) {
  HandTrace hand(2);
  const trace::Nanoseconds done[] = {5000, 6000, 7000, 8200, 9200};
  for (int i = 0; i < 5; ++i) {
    hand.task({.times = times(100, 100, done[i] - 500, done[i]), .iteration = 10 + i});
    // The second task of every other iteration ends late. The times per iteration stay the same.
    const trace::Nanoseconds late = done[i] + (i % 2 == 0 ? 10 : 1900);
    hand.task({.worker = 1, .times = times(100, 100, late - 400, late), .iteration = 10 + i});
  }
  const perf::Iterations iterations = analyse_iterations(hand.read());
  ASSERT_EQ(iterations.times.size(), 5u);
  EXPECT_DOUBLE_EQ(iterations.times[0].seconds, 4910e-9) << "the first, as a whole";
  EXPECT_DOUBLE_EQ(iterations.times[3].seconds, 1200e-9);
  EXPECT_EQ(iterations.spread.count, 3u) << "the first two warm up";
  EXPECT_DOUBLE_EQ(iterations.spread.median, 1000e-9);
  EXPECT_DOUBLE_EQ(iterations.images_per_second, 30e6) << "of all that are counted";
}

TEST(Iterations, FewAreCountedAsAWhole) {
  HandTrace hand(1);
  for (int i = 0; i < 2; ++i) {
    hand.task({.times = times(100, 100, 100, 1100), .iteration = i});
    hand.task({.times = times(100, 100, 1100, 2100), .iteration = i});
  }
  EXPECT_DOUBLE_EQ(analyse_iterations(hand.read()).images_per_second, 32e6);
}

TEST(Summary, NamesTheLargestLossesFirst) {
  HandTrace hand(2);
  hand.task({.worker = 0, .times = {0, 0, 0, 15, 15, 25, 25, 100, 100}});
  hand.add(trace::Wait{.for_all = true, .from = 0, .to = 100});
  const perf::Summary summary = analyse_summary(hand.read());
  ASSERT_EQ(summary.losses.size(), 3u);
  EXPECT_EQ(summary.losses[0].name, "barrier");
  EXPECT_EQ(summary.losses[0].share, 0.5);
  EXPECT_EQ(summary.losses[0].text, "the main thread waits before it submits more tasks");
  EXPECT_EQ(summary.losses[1].name, "scheduling");
  EXPECT_DOUBLE_EQ(summary.losses[1].share, 0.075);
  EXPECT_EQ(summary.losses[2].name, "data");
}

TEST(Summary, SaysWhereDecodingDelaysTraining) {
  const auto losses = [](trace::Nanoseconds train) {
    HandTrace hand(1);
    hand.task({.codelet = "conv", .times = times(0, 0, 0, train)});
    hand.task({.codelet = "read_image_files", .times = times(0, 900, 900, 950)});
    hand.task({.codelet = "unpack_batch", .times = times(0, 950, 950, 960)});
    hand.task({.codelet = "conv", .times = times(0, 960, 960, 1000)});
    return analyse_summary(hand.read()).losses;
  };
  const auto busy = losses(900);
  ASSERT_EQ(busy.size(), 1u);
  EXPECT_EQ(busy[0].name, "decoding");
  EXPECT_DOUBLE_EQ(busy[0].share, 0.06);
  EXPECT_EQ(busy[0].text,
            "workers that compute also decode images (more cores would take this over)");
  EXPECT_EQ(losses(860).front().name, "decoding") << "4 % are not enough";
  const auto idle = losses(700);
  ASSERT_EQ(idle.size(), 2u);
  EXPECT_EQ(idle[1].name, "decoding");
  EXPECT_DOUBLE_EQ(idle[1].share, 0.06);
  EXPECT_EQ(idle[1].text,
            "workers that compute also decode images (though they had nothing to do for 20 % of "
            "the time)");
}

// Other programs on the machine make some tasks of a layer much longer than its other tasks.
TEST(Summary, SaysThatOthersUsedTheMachine) {
  const auto losses = [](trace::Nanoseconds longer, int from, std::int32_t layer) {
    HandTrace hand(1);
    hand.add(trace::Layer{.id = 0, .type = "conv", .detail = ""});
    trace::Nanoseconds now = 0;
    for (int i = 0; i < 100; ++i) {
      const trace::Nanoseconds end = now + 1000 + i % 3 + (i >= from && i % 5 == 0 ? longer : 0);
      hand.task({.times = times(now, now, now, end), .iteration = i / 10, .layer = layer});
      now = end;
    }
    return analyse_summary(hand.read()).losses;
  };
  EXPECT_TRUE(losses(0, 0, 0).empty()) << "a quiet machine";
  const auto disturbed = losses(1000, 20, 0);
  ASSERT_EQ(disturbed.size(), 1u);
  EXPECT_EQ(disturbed[0].name, "others");
  EXPECT_NEAR(disturbed[0].share, 16. / 116, 1e-3);
  EXPECT_NE(disturbed[0].text.find("others used the machine"), std::string::npos);
  EXPECT_TRUE(losses(1000, 100, 0).empty());
  EXPECT_TRUE(losses(1000, 20, -1).empty()) << "of any size";
  EXPECT_TRUE(losses(0, 0, 0).empty());
}

TEST(Summary, WarmingUpIsNotOthers) {
  HandTrace hand(1);
  hand.add(trace::Layer{.id = 0, .type = "conv", .detail = ""});
  for (int i = 0; i < 100; ++i)
    hand.task({.times = times(0, 0, 9000 * i, 9000 * i + (i < 20 && i % 2 == 0 ? 9000 : 1000)),
               .iteration = i / 10,
               .layer = 0});
  for (const perf::Loss& loss : analyse_summary(hand.read()).losses) EXPECT_NE(loss.name, "others");
}

}  // namespace
}  // namespace omni::test
