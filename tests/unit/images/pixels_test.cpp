// These tests check when images in memory reach the net as bytes instead of floats, which must not
// change any value.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "runtime/data/feed/data_feed.hpp"
#include "runtime/data/synthetic.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/session.hpp"
#include "runtime/tasks/task_errors.hpp"

namespace omni {
namespace {

struct Preparation {
  const char* what;
  AugmentOptions options;
  Extent image, net;
  bool training = true;
};

constexpr Extent kImages{12, 14, 3};

const std::vector<Preparation> kExact{
    {"nothing", {}, kImages, kImages},
    {"windows", {}, kImages, {8, 9, 3}},
    {"mirrored windows", {.flip = true}, kImages, {8, 9, 3}},
    {"the centre", {.center = true, .angle = 20, .aspect = 2}, kImages, {8, 8, 3}},
    {"asked for the size that it has", {.min_crop = 12, .max_crop = 12}, kImages, {8, 8, 3}},
    {"grey from colour", {}, kImages, {12, 14, 1}},
    {"colour from grey", {.flip = true}, {12, 14, 1}, {10, 10, 3}},
    {"a test", {.angle = 20, .aspect = 2, .exposure = 2}, kImages, {8, 8, 3}, false},
    {"a test in the smallest size", {.min_crop = 12, .max_crop = 16}, kImages, {8, 8, 3}, false},
};
const std::vector<Preparation> kInexact{
    {"sizes", {.min_crop = 12, .max_crop = 16}, kImages, {8, 8, 3}},
    {"sizes up to a limit", {.max_crop = 20}, kImages, {12, 12, 3}},
    {"another size", {.min_crop = 9, .max_crop = 9}, kImages, {8, 8, 3}},
    {"a test in another size", {.min_crop = 9, .max_crop = 9}, kImages, {8, 8, 3}, false},
    {"enlarged", {}, kImages, {16, 14, 3}},
    {"angles", {.angle = 5}, kImages, {8, 8, 3}},
    {"aspects", {.aspect = 1.5f}, kImages, {8, 8, 3}},
    {"saturation", {.saturation = 1.5f}, kImages, kImages},
    {"exposure", {.exposure = 1.5f}, kImages, kImages},
    {"exposure of the centre", {.center = true, .exposure = 1.5f}, kImages, kImages},
    {"hue", {.hue = 0.1f}, kImages, kImages},
};

constexpr std::size_t kSamples = 40;

// Returns whether floats, and bytes that are divided by 255, have the same bits for some samples.
bool both_ways_agree(const Preparation& each) {
  const SyntheticDataset images({.size = kSamples, .extent = each.image});
  std::vector<std::size_t> indices(kSamples);
  for (std::size_t i = 0; i < kSamples; ++i) indices[i] = i;
  std::vector<float> floats(kSamples * each.net.count());
  std::vector<std::uint8_t> pixels(floats.size());
  EXPECT_TRUE(
      fill_batch(images, indices, 0, each.options, 7, each.training, each.net, floats.data()));
  EXPECT_TRUE(
      fill_batch(images, indices, 0, each.options, 7, each.training, each.net, pixels.data()));
  return std::ranges::equal(floats, pixels, {}, {},
                            [](std::uint8_t pixel) { return static_cast<float>(pixel) / 255.0f; });
}

TEST(Pixels, AreExactWhereAPreparationKeepsBytes) {
  for (const Preparation& each : kExact) {
    EXPECT_TRUE(keeps_bytes(each.options, each.image, each.training, each.net)) << each.what;
    EXPECT_TRUE(both_ways_agree(each)) << each.what;
  }
}

// If these preparations gave the same values as bytes, keeps_bytes() would be too strict.
TEST(Pixels, AreNotWhereItBlendsOrRecolours) {
  for (const Preparation& each : kInexact) {
    EXPECT_FALSE(keeps_bytes(each.options, each.image, each.training, each.net)) << each.what;
    EXPECT_FALSE(both_ways_agree(each)) << each.what;
  }
}

TEST(Pixels, GoToFloatsAndBackUnchanged) {
  std::vector<std::uint8_t> bytes(256);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  class Ramp : public Dataset {
   public:
    explicit Ramp(const std::vector<std::uint8_t>& bytes) : bytes_(bytes) {}
    std::size_t size() const override { return 1; }
    Extent extent() const override { return {16, 16, 1}; }
    int classes() const override { return 1; }
    int label(std::size_t) const override { return 0; }
    Status read(std::size_t, LeastSize, Image& image) const override {
      image = {extent(), bytes_};
      return {};
    }
    std::string description() const override { return "every byte"; }

   private:
    const std::vector<std::uint8_t>& bytes_;
  };
  std::vector<std::uint8_t> pixels(256);
  const std::vector<std::size_t> first{0};
  ASSERT_TRUE(fill_batch(Ramp(bytes), first, 0, {}, 1, true, {16, 16, 1}, pixels.data()));
  EXPECT_EQ(pixels, bytes);
}

std::vector<std::vector<float>> fed(const Dataset& images, FeedOptions options) {
  DataFeed feed(images, std::move(options));
  EXPECT_TRUE(feed.allocate());
  std::vector<std::vector<float>> slices;
  for (const std::uint64_t number : {0u, 1u, 2u}) {
    const std::uint64_t first = number * static_cast<std::uint64_t>(feed.batch());
    feed.submit(first);
    EXPECT_TRUE(wait_for_tasks());
    EXPECT_EQ(feed.decoded(), number + 1);
    for (const Tensor* slice : feed.slot(first).images)
      slices.push_back(HostAccess(*slice, HostAccess::Mode::read).values());
    for (const Tensor* slice : feed.slot(first).labels) {
      const HostAccess labels(*slice, HostAccess::Mode::read);
      slices.emplace_back(labels.i32().begin(), labels.i32().end());
    }
    feed.release(first);
  }
  return slices;
}

// The cases are windows, which keep bytes, and resized images, which do not. Further cases are
// large images, for which several tasks fill a slice, and a test set that ends within a mini-batch.
TEST(Pixels, ADataFeedGivesTheSameEitherWay) {
  SessionOptions machine;
  machine.cpu_workers = 2;
  const auto session = Session::start(machine);
  ASSERT_TRUE(session) << session.error().message();
  const SyntheticDataset small({.size = 50, .extent = kImages}),
      large({.size = 9, .extent = {640, 640, 3}});
  const std::vector<FeedOptions> feeds{
      {.augment = {.flip = true}, .net_input = {8, 9, 3}, .slices = Slices::cut(20, 7)},
      {.augment = {.angle = 9}, .net_input = {8, 9, 3}, .slices = Slices::cut(20, 7)},
      {.training = false, .augment = {}, .net_input = {8, 9, 3}, .slices = Slices::cut(20, 20)},
      {.augment = {}, .net_input = {630, 640, 3}, .slices = Slices::cut(5, 3)}};
  for (const FeedOptions& options : feeds) {
    const Dataset& images = options.net_input.h > 100 ? large : small;
    const auto given = [&](DataType values, bool unpack_apart) {
      FeedOptions way = options;
      way.seed = 3;
      way.values = values;
      way.unpack_apart = unpack_apart;
      return fed(images, way);
    };
    const auto floats = given(DataType::f32, false);
    EXPECT_EQ(given(DataType::f32, true), floats);
    auto rounded = floats;
    for (auto& slice : rounded)
      for (float& value : slice) value = Bf16(value);
    EXPECT_EQ(given(DataType::bf16, false), rounded);
    EXPECT_EQ(given(DataType::bf16, true), rounded);
  }
}

}  // namespace
}  // namespace omni
