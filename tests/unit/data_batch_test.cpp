// These tests check that a batch holds its images in order, whichever worker fills it and however
// it is sliced.
#include "runtime/data/feed/data_feed.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "runtime/data/images/resize.hpp"
#include "runtime/data/sampler.hpp"
#include "runtime/data/synthetic.hpp"

namespace omni {
namespace {

constexpr Extent kNet{12, 12, 3};
const AugmentOptions kAugment{
    .min_crop = 12, .max_crop = 20, .angle = 10, .hue = 0.1f, .flip = true};

struct Batch {
  std::vector<float> images;
  std::vector<std::uint8_t> pixels;
  explicit Batch(std::size_t count) : images(count * kNet.count(), -1), pixels(images.size()) {}
  bool operator==(const Batch&) const = default;
};

SyntheticDataset data() { return SyntheticDataset({.size = 50, .extent = {16, 16, 3}}); }

Status fill(const Dataset& dataset, const Sampler& sampler, std::uint64_t first, std::size_t from,
            std::size_t count, Batch& batch) {
  std::vector<std::size_t> indices(count);
  sampler.indices(first + from, indices);
  OMNI_CHECK(fill_batch(dataset, indices, first + from, kAugment, 3, true, kNet,
                        batch.pixels.data() + from * kNet.count()));
  return fill_batch(dataset, indices, first + from, kAugment, 3, true, kNet,
                    batch.images.data() + from * kNet.count());
}

TEST(FillBatch, IsItsImages) {
  const SyntheticDataset dataset = data();
  const std::vector<std::size_t> indices{7, 7, 49, 0};
  Batch batch(4);
  ASSERT_TRUE(fill_batch(dataset, indices, 100, kAugment, 3, true, kNet, batch.images.data()));
  ASSERT_TRUE(fill_batch(dataset, indices, 100, kAugment, 3, true, kNet, batch.pixels.data()));
  Image image;
  std::vector<float> expected(batch.images.size());
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(dataset.read(indices[i], {}, image));
    prepare_image(image.pixels, dataset.extent(), kAugment, 3, 100 + i, true, kNet,
                  expected.data() + i * kNet.count());
  }
  EXPECT_EQ(batch.images, expected);
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(batch.pixels[i], expected[i] * 255, 0.501);
}

TEST(FillBatch, SlicesAndThreadsDoNotMatter) {
  const SyntheticDataset dataset = data();
  const Sampler sampler(dataset.size(), 5, true);
  constexpr std::uint64_t kFirst = 33;  // crosses an epoch
  Batch whole(48), sliced(48);
  ASSERT_TRUE(fill(dataset, sampler, kFirst, 0, 48, whole));
  std::vector<std::thread> threads;
  for (std::size_t slice = 0; slice < 4; ++slice)
    threads.emplace_back([&, slice] {
      for (const std::size_t part : {2u, 0u, 1u})
        EXPECT_TRUE(fill(dataset, sampler, kFirst, 12 * slice + 4 * part, 4, sliced));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(whole, sliced);
}

TEST(FillBatch, ReportsWhatCannotBeRead) {
  const SyntheticDataset dataset = data();
  Batch batch(2);
  const std::vector<std::size_t> indices{1, 50};
  const Status beyond = fill_batch(dataset, indices, 0, {}, 1, true, kNet, batch.images.data());
  ASSERT_FALSE(beyond);
  EXPECT_NE(beyond.error().message().find("no image 50 among 50"), std::string::npos);
  const Status channels =
      fill_batch(dataset, indices, 0, {}, 1, true, {12, 12, 2}, batch.images.data());
  ASSERT_FALSE(channels);
  EXPECT_NE(channels.error().message().find("has images of 3 channels, but the net wants 2"),
            std::string::npos);
}

// As Caffe's tools do, files of any size are resized to the size of the mean. A window is cut from
// the image and from the mean at the same place.
class TwoSizes : public Dataset {
 public:
  std::size_t size() const override { return 2; }
  Extent extent() const override { return {0, 0, 3}; }
  int classes() const override { return 1; }
  int label(std::size_t) const override { return 0; }
  Status read(std::size_t index, LeastSize, Image& image) const override {
    image = original(index);
    return {};
  }
  std::string description() const override { return "two sizes"; }
  static Image original(std::size_t index) {
    Image image{index == 0 ? Extent{9, 7, 3} : Extent{20, 31, 3}, {}};
    for (std::size_t i = 0; i < image.extent.count(); ++i)
      image.pixels.push_back(static_cast<std::uint8_t>(i * 37 % 251));
    return image;
  }
};

TEST(FillBatch, FilesHaveTheSizeOfTheirMean) {
  constexpr Extent kMean{14, 16, 3};
  MeanImage mean{kMean, {}};
  for (std::size_t i = 0; i < kMean.count(); ++i)
    mean.values.push_back(static_cast<float>(i % 101));
  const AugmentOptions options{.own_size = true,
                               .byte_values = ByteValues{.scale = 0.5f},
                               .mean_image = std::make_shared<const MeanImage>(mean)};
  const std::vector<std::size_t> indices{0, 1};
  Batch batch(2);
  const Status filled =
      fill_batch(TwoSizes(), indices, 0, options, 1, false, kNet, batch.images.data());
  ASSERT_TRUE(filled) << filled.error().message();
  for (std::size_t i = 0; i < 2; ++i) {
    const Image image = resized(TwoSizes::original(i), kMean.h, kMean.w);
    for (std::size_t y = 0; y < 12; ++y)
      for (std::size_t x = 0; x < 12 * 3; ++x) {
        const std::size_t at = ((y + 1) * 16 + 2) * 3 + x;
        ASSERT_NEAR(batch.images[i * kNet.count() + y * 36 + x],
                    0.5f * (static_cast<float>(image.pixels[at]) - mean.values[at]), 1e-3);
      }
  }
  const Status larger =
      fill_batch(TwoSizes(), indices, 0, options, 1, false, {20, 20, 3}, batch.images.data());
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error().what, "has images of 16x14 pixels, but 20x20 are cut out");
}

// Reading this dataset throws std::bad_alloc. No exception may reach StarPU, which is written in C.
class Greedy : public Dataset {
 public:
  std::size_t size() const override { return 1; }
  Extent extent() const override { return {1, 1, 1}; }
  int classes() const override { return 1; }
  int label(std::size_t) const override { return 0; }
  Status read(std::size_t, LeastSize, Image&) const override { throw std::bad_alloc(); }
  std::string description() const override { return "greedy"; }
};

TEST(FillBatch, OutOfMemoryIsAnError) {
  float image = 0;
  const std::vector<std::size_t> indices{0};
  const Status status = fill_batch(Greedy(), indices, 0, {}, 1, true, {1, 1, 1}, &image);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::out_of_memory);
}

}  // namespace
}  // namespace omni
