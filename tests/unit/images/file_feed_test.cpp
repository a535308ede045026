// These tests check the data feed with image files, where many tasks fill one mini-batch.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/data/feed/data_feed.hpp"
#include "runtime/data/open.hpp"
#include "runtime/data/sampler.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/session.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "tests/support/images/image_folder.hpp"

namespace omni {
namespace {

constexpr Extent kFedNet{9, 11, 3};

class FileFeed : public testing::Test {
 protected:
  void SetUp() override {
    test::make_image_folder(folder_.path(), 20, 5);
    auto data = open_dataset({.source = folder_.path(), .net_input = kFedNet});
    ASSERT_TRUE(data) << data.error().message();
    data_ = std::move(*data);
    SessionOptions options;
    options.cpu_workers = 2;
    auto session = Session::start(options);
    ASSERT_TRUE(session) << session.error().message();
    session_.emplace(std::move(*session));
  }

  test::TemporaryDirectory folder_;
  DatasetPair data_;
  std::optional<Session> session_;
};

TEST_F(FileFeed, AMiniBatchIsItsImages) {
  // Tasks decode one, four and five images here. A task usually decodes four files, but at most 15
  // tasks fill one slice.
  for (const int slice : {1, 37, 68}) {
    FeedOptions options;
    options.seed = 3;
    options.augment.min_crop = 11;
    options.augment.max_crop = 15;
    options.augment.flip = true;
    options.net_input = kFedNet;
    options.slices = Slices::cut(70, slice);
    options.slots = 2;
    DataFeed feed(*data_.train, options);
    ASSERT_TRUE(feed.allocate());
    feed.submit(70);
    feed.submit(0);
    ASSERT_TRUE(wait_for_tasks());
    EXPECT_EQ(feed.decoded(), 2u);
    const Sampler sampler(data_.train->size(), 3, true);
    for (const std::uint64_t number : {0u, 1u})
      for (std::size_t i = 0; i < options.slices.sizes.size(); ++i) {
        const auto count = static_cast<std::size_t>(options.slices.sizes[i]);
        const std::uint64_t first =
            number * 70 + static_cast<std::uint64_t>(options.slices.offsets[i]);
        std::vector<std::size_t> indices(count);
        sampler.indices(first, indices);
        std::vector<std::uint8_t> expected(count * kFedNet.count());
        ASSERT_TRUE(fill_batch(*data_.train, indices, first, options.augment, 3, true, kFedNet,
                               expected.data()));
        const HostAccess images(*feed.slot(number * 70).images[i], HostAccess::Mode::read);
        ASSERT_TRUE(std::ranges::equal(images.f32(), expected, {}, {}, [](std::uint8_t value) {
          return static_cast<float>(value) / 255.0f;
        })) << slice;
        const HostAccess labels(*feed.slot(number * 70).labels[i], HostAccess::Mode::read);
        for (std::size_t at = 0; at < count; ++at)
          ASSERT_EQ(labels.i32()[at], data_.train->label(indices[at]));
      }
  }
}

// Pixel values with a mean subtracted do not fit in bytes, so the feed delivers floats, in training
// and in tests.
TEST_F(FileFeed, ValuesArriveAsTheNetReadsThem) {
  for (const bool training : {true, false}) {
    FeedOptions options;
    options.training = training;
    options.seed = 3;
    options.augment.flip = true;
    options.augment.byte_values =
        ByteValues{.mean = {100, 110, 120}, .scale = 0.5f, .blue_first = true};
    options.net_input = kFedNet;
    options.slices = Slices::cut(14, 9);
    const Dataset& data = training ? *data_.train : *data_.test;
    DataFeed feed(data, options);
    ASSERT_TRUE(feed.allocate());
    feed.submit(0);
    ASSERT_TRUE(wait_for_tasks());
    const Sampler sampler(data.size(), 3, training);
    for (std::size_t i = 0; i < options.slices.sizes.size(); ++i) {
      std::vector<std::size_t> indices(static_cast<std::size_t>(options.slices.sizes[i]));
      const auto first = static_cast<std::uint64_t>(options.slices.offsets[i]);
      sampler.indices(first, indices);
      std::vector<float> expected(indices.size() * kFedNet.count());
      ASSERT_TRUE(
          fill_batch(data, indices, first, options.augment, 3, training, kFedNet, expected.data()));
      EXPECT_LT(std::ranges::min(expected), -40);
      const HostAccess images(*feed.slot(0).images[i], HostAccess::Mode::read);
      EXPECT_TRUE(std::ranges::equal(images.f32(), expected)) << training;
    }
  }
}

TEST_F(FileFeed, ATestSetEnds) {
  DataFeed feed(
      *data_.test,
      {.training = false, .augment = {}, .net_input = kFedNet, .slices = Slices::cut(12, 12)});
  ASSERT_TRUE(feed.allocate());
  feed.submit(12);  // images 12 to 14 of 15
  ASSERT_TRUE(wait_for_tasks());
  const HostAccess images(*feed.slot(12).images[0], HostAccess::Mode::read);
  const HostAccess labels(*feed.slot(12).labels[0], HostAccess::Mode::read);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(labels.i32()[i], i < 3 ? 2 : kNoLabel);
    const auto image = images.f32().subspan(i * kFedNet.count(), kFedNet.count());
    EXPECT_EQ(std::ranges::count(image, 0.0f) == std::ssize(image), i >= 3);
  }
}

}  // namespace
}  // namespace omni
