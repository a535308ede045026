// These tests let several feeds read one stream of samples. Each feed gets the samples that it
// would prepare by itself.
#include "runtime/data/feed/shared_stream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "runtime/data/feed/data_feed.hpp"
#include "runtime/data/open.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/own_tasks.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "tests/support/images/image_folder.hpp"
#include "tests/support/with_session.hpp"

namespace omni {
namespace {

struct Source {
  const char* name;
  std::string data;
  Extent net;
  AugmentOptions augment{};
  DataType type = DataType::u8;
};

class SharedStreams : public test::WithSession {
 protected:
  SharedStreams() : WithSession(test::with_workers(2)) {}

  static FeedOptions feed(const Source& source, int batch, int slice, SharedStream* stream) {
    return {.seed = 3,
            .augment = source.augment,
            .net_input = source.net,
            .slices = Slices::cut(batch, slice),
            .slots = 2,
            .stream = stream};
  }
  static SampleOptions samples(const Source& source) {
    return {.seed = 3, .augment = source.augment, .net_input = source.net};
  }
  // Returns the values and labels of a mini-batch, and releases it.
  static std::vector<float> next(DataFeed& feed, std::uint64_t first) {
    feed.submit(first);
    std::vector<float> all;
    for (const Tensor* tensor : feed.slot(first).images) {
      const HostAccess access(*tensor, HostAccess::Mode::read);
      all.insert(all.end(), access.f32().begin(), access.f32().end());
    }
    for (const Tensor* tensor : feed.slot(first).labels) {
      const HostAccess access(*tensor, HostAccess::Mode::read);
      all.insert(all.end(), access.i32().begin(), access.i32().end());
    }
    feed.release(first);
    return all;
  }
};

// Three feeds read 60 samples each, as pixels or floats, in the same order. The stream prepares
// fewer than 120 samples, and each feed gets what it would prepare alone.
TEST_F(SharedStreams, E2_GiveEachFeedItsOwnSamples) {
  test::TemporaryDirectory files;
  test::make_image_folder(files.path(), 20, 5);
  for (const Source& source :
       {Source{"files", files.path(), {9, 11, 3}, {.min_crop = 11, .max_crop = 15, .flip = true}},
        Source{"values of files",
               files.path(),
               {9, 11, 3},
               {.flip = true, .byte_values = ByteValues{.mean = {90, 100, 110}}},
               DataType::f32},
        Source{"bytes in memory", "synthetic:40:5", {12, 12, 1}, {.flip = true}},
        Source{"colours", "synthetic:40:5", {12, 12, 3}, {.exposure = 1.5f}, DataType::f32},
        Source{"vectors", "synthetic-vectors:40:7:3", {1, 1, 7}, {.flat = true}, DataType::f32}}) {
    SCOPED_TRACE(source.name);
    const auto data = open_dataset({.source = source.data,
                                    .net_input = source.net,
                                    .flat = source.augment.flat,
                                    .classes = source.net.c == 7 ? 3 : 5,
                                    .seed = 1});
    ASSERT_TRUE(data) << data.error().message();
    SharedStream stream(*data->train, samples(source), 1);
    EXPECT_EQ(stream.type(), source.type);
    constexpr std::array<std::array<int, 2>, 3> kCuts{{{6, 6}, {10, 3}, {15, 4}}};
    std::vector<std::unique_ptr<DataFeed>> sharing, alone;
    for (const auto [batch, slice] : kCuts) {
      sharing.push_back(
          std::make_unique<DataFeed>(*data->train, feed(source, batch, slice, &stream)));
      alone.push_back(
          std::make_unique<DataFeed>(*data->train, feed(source, batch, slice, nullptr)));
      ASSERT_TRUE(sharing.back()->allocate());
      ASSERT_TRUE(alone.back()->allocate());
    }
    for (const auto& each : sharing) ASSERT_TRUE(each->join_stream(0));
    std::array<std::uint64_t, 3> at{};
    while (*std::ranges::min_element(at) < 60) {
      const std::size_t slowest = std::ranges::min_element(at) - at.begin();
      ASSERT_EQ(next(*sharing[slowest], at[slowest]), next(*alone[slowest], at[slowest]));
      at[slowest] += kCuts[slowest][0];
    }
    EXPECT_GE(stream.prepared(), 60u);
    EXPECT_LT(stream.prepared(), 2 * 60u) << "each feed prepared its own";
    EXPECT_TRUE(task_status());
  }
}

// The stream tells the other ranks how far its readers are. It tells them nothing more after
// leave_ranks().
TEST_F(SharedStreams, SayNothingToRanksThatTheyHaveLeft) {
  const Source source{"bytes in memory", "synthetic:40:5", {12, 12, 1}};
  const auto data = open_dataset(
      {.source = source.data, .net_input = source.net, .flat = false, .classes = 5, .seed = 1});
  ASSERT_TRUE(data) << data.error().message();
  SharedStream stream(*data->train, samples(source), 1);
  DataFeed reads(*data->train, feed(source, 6, 6, &stream));
  ASSERT_TRUE(reads.allocate());
  int told = 0;
  ASSERT_TRUE(stream.join_ranks({.route = {StreamRoute::Design::all, 1, 1},
                                 .ranks = {0},
                                 .samples_per_block = stream.samples_per_block(),
                                 .most_batch = stream.most_batch(),
                                 .most_ahead = stream.most_ahead(),
                                 .tell = [&told](std::uint64_t, std::uint64_t) { ++told; }}));
  ASSERT_TRUE(reads.join_stream(0));
  (void)next(reads, 0);
  EXPECT_GT(told, 0);
  const std::uint64_t prepared = stream.prepared();
  told = 0;
  stream.leave_ranks();
  stream.heard(0, 1000, 1000);
  reads.leave_stream();
  EXPECT_EQ(told, 0);
  EXPECT_EQ(stream.prepared(), prepared);
}

// Prepared test samples are kept, so all feeds together prepare each of them once, for any number
// of passes.
TEST_F(SharedStreams, KeepTestSamples) {
  test::TemporaryDirectory files;
  test::make_image_folder(files.path(), 20, 5);
  const Source source{"files", files.path(), {9, 11, 3}, {.min_crop = 11, .max_crop = 15}};
  const auto data = open_dataset(
      {.source = source.data, .net_input = source.net, .flat = false, .classes = 5, .seed = 1});
  ASSERT_TRUE(data) << data.error().message();
  const Dataset& set = *data->train;  // larger than the test set
  SampleOptions options = samples(source);
  options.training = false;
  EXPECT_TRUE(SharedStream::fits(set, options, set.size() * source.net.count()));
  EXPECT_FALSE(SharedStream::fits(set, options, set.size() * source.net.count() - 1));
  SharedStream stream(set, options, 1);
  const auto feed_of = [&](int batch, int slice, SharedStream* of) {
    FeedOptions with = feed(source, batch, slice, of);
    with.training = false;
    return std::make_unique<DataFeed>(set, std::move(with));
  };
  const auto six = feed_of(6, 6, &stream), seven = feed_of(7, 2, &stream),
             alone = feed_of(6, 6, nullptr), alone_7 = feed_of(7, 2, nullptr);
  for (DataFeed* each : {six.get(), seven.get(), alone.get(), alone_7.get()})
    ASSERT_TRUE(each->allocate());
  for (int pass = 0; pass < 2; ++pass) {
    for (std::uint64_t at = 0; at < set.size(); at += 6)
      ASSERT_EQ(next(*six, at), next(*alone, at));
    for (std::uint64_t at = 0; at < set.size(); at += 7)
      ASSERT_EQ(next(*seven, at), next(*alone_7, at));
  }
  EXPECT_GE(stream.prepared(), set.size());
  EXPECT_LT(stream.prepared(), set.size() + 8) << "some samples were prepared twice";
  EXPECT_TRUE(task_status());
}

// StarPU's own memory for a block is larger than a small sample, so the number of blocks is
// limited.
TEST_F(SharedStreams, AWindowOfSmallSamplesHasFewBlocks) {
  const Source source{"", "synthetic:40:5", {12, 12, 1}};
  const auto data =
      open_dataset({.source = source.data, .net_input = source.net, .classes = 5, .seed = 1});
  ASSERT_TRUE(data) << data.error().message();
  SharedStream stream(*data->train, samples(source), 64 << 20);
  const DataFeed feed_of_one(*data->train, feed(source, 1, 1, &stream));
  EXPECT_EQ(stream.bytes(), 1024 * source.net.count());
  const DataFeed feed_of_many(*data->train, feed(source, 1000, 1000, &stream));
  EXPECT_GE(stream.bytes(), 6000 * source.net.count()) << "less than the mini-batches under way";
}

// The faster feed waits for the slower one. So no sample is prepared twice, and the memory for
// samples is bounded.
TEST_F(SharedStreams, E5_TheFasterFeedWaitsForTheSlower) {
  const Source source{"", "synthetic:40:5", {12, 12, 1}};
  const auto data =
      open_dataset({.source = source.data, .net_input = source.net, .classes = 5, .seed = 1});
  ASSERT_TRUE(data) << data.error().message();
  SharedStream stream(*data->train, samples(source), 1);
  constexpr int kBatch = 4;
  DataFeed slow(*data->train, feed(source, kBatch, kBatch, &stream)),
      fast(*data->train, feed(source, kBatch, kBatch, &stream));
  for (DataFeed* each : {&slow, &fast}) {
    ASSERT_TRUE(each->allocate());
    ASSERT_TRUE(each->join_stream(0));
  }
  const std::uint64_t window = stream.bytes() / source.net.count();  // in samples
  constexpr std::uint64_t kEnd = 2000;
  ASSERT_LT(window, kEnd / 4);
  std::atomic<std::uint64_t> ahead{0};
  std::jthread runner([&] {
    OwnTasks tasks;
    const OwnTasksScope own(tasks);
    for (std::uint64_t at = 0; at < kEnd; at += kBatch) {
      next(fast, at);
      ahead = at + kBatch;
    }
  });
  OwnTasks tasks;
  const OwnTasksScope own(tasks);
  for (std::uint64_t at = 0; at < kEnd / 2; at += kBatch) {
    EXPECT_LE(ahead, at + window);
    next(slow, at);
  }
  slow.leave_stream();
  runner.join();
  EXPECT_EQ(ahead, kEnd) << "it waits for one that has left";
  EXPECT_LE(stream.prepared(), kEnd + window);
}

// A training that rests reads the mini-batches again that its feed held ahead. Another feed is then
// as far ahead as it may be.
TEST_F(SharedStreams, AFeedThatRestsReadsWhatItsWindowStillHas) {
  const Source source{"", "synthetic:40:5", {12, 12, 1}};
  const auto data =
      open_dataset({.source = source.data, .net_input = source.net, .classes = 5, .seed = 1});
  ASSERT_TRUE(data) << data.error().message();
  constexpr int kBatch = 4;
  constexpr std::uint64_t kAhead = 2 * kBatch, kEnd = 1000;  // of both slots; the last sample
  for (const bool is_alone : {true, false}) {
    SharedStream stream(*data->train, samples(source), 1);
    DataFeed rests(*data->train, feed(source, kBatch, kBatch, &stream)),
        fast(*data->train, feed(source, kBatch, kBatch, &stream)),
        alone(*data->train, feed(source, kBatch, kBatch, nullptr));
    for (DataFeed* each : {&rests, &fast, &alone}) ASSERT_TRUE(each->allocate());
    ASSERT_TRUE(rests.join_stream(0));
    if (!is_alone) {
      ASSERT_TRUE(fast.join_stream(0));
    }
    std::atomic<std::uint64_t> fast_at{is_alone ? kEnd : 0};
    std::jthread runner([&] {
      OwnTasks tasks;
      const OwnTasksScope own(tasks);
      for (; fast_at < kEnd; fast_at += kBatch) next(fast, fast_at);
    });
    OwnTasks tasks;
    const OwnTasksScope own(tasks);
    const std::uint64_t room = stream.bytes() / source.net.count() - kAhead - kBatch;
    for (std::uint64_t at = 0; at < kEnd; at += kBatch) {
      if (at == 40 || at == 500) {
        for (std::uint64_t more = at; more < at + kAhead; more += kBatch) next(rests, more);
        // The fast feed gets time to go farther than it may.
        while (fast_at < std::min(kEnd, at + kBatch + room)) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      ASSERT_EQ(next(rests, at), next(alone, at)) << at;
    }
    runner.join();
    EXPECT_EQ(stream.prepared(), kEnd) << "samples were prepared again";
  }
  EXPECT_TRUE(task_status());
}

// A feed that goes back, as after a divergence, prepares samples by itself until it has caught up
// with the others.
TEST_F(SharedStreams, AFeedMayGoBack) {
  const Source source{"", "synthetic:40:5", {12, 12, 1}};
  const auto data =
      open_dataset({.source = source.data, .net_input = source.net, .classes = 5, .seed = 1});
  ASSERT_TRUE(data) << data.error().message();
  SharedStream stream(*data->train, samples(source), 1);
  constexpr int kBatch = 4;
  DataFeed one(*data->train, feed(source, kBatch, kBatch, &stream)),
      other(*data->train, feed(source, kBatch, kBatch, &stream)),
      alone(*data->train, feed(source, kBatch, kBatch, nullptr));
  for (DataFeed* each : {&one, &other, &alone}) ASSERT_TRUE(each->allocate());
  for (DataFeed* each : {&one, &other}) ASSERT_TRUE(each->join_stream(0));
  const auto both_to = [&](std::uint64_t from, std::uint64_t end) {
    for (std::uint64_t at = from; at < end; at += kBatch) {
      next(one, at);
      next(other, at);
    }
  };
  both_to(0, 400);
  const std::uint64_t together = stream.prepared();
  EXPECT_LE(together, 400 + kBatch);
  for (std::uint64_t at = 0; at < 400; at += kBatch) ASSERT_EQ(next(other, at), next(alone, at));
  EXPECT_GE(stream.prepared(), 2 * together - kBatch) << "from a window that no longer has them";
  const std::uint64_t again = stream.prepared();
  both_to(400, 800);
  EXPECT_LE(stream.prepared(), again + 400 + 2 * kBatch) << "they share no more";
}

TEST(OwnTasks, AWaitIsForTheTasksOfTheScope) {
  OwnTasks mine, others;
  const OwnTasksScope outer(others);
  EXPECT_EQ(OwnTasks::current(), &others);
  others.submitted();
  {
    const OwnTasksScope inner(mine);
    EXPECT_EQ(OwnTasks::current(), &mine);
    mine.submitted();
    std::jthread worker([&] { mine.done(); });
    mine.wait();  // with a task of the other one under way
  }
  EXPECT_EQ(OwnTasks::current(), &others);
  others.done();
}

}  // namespace
}  // namespace omni
