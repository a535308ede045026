// These tests check which images a net accepts, and in which order a net for vectors gets an
// image's values.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/data/augment.hpp"

namespace omni {
namespace {

std::string refusal(const AugmentOptions& options, Extent image, Extent net) {
  Status status = check_input(options, image, net, "x");
  return status ? "" : status.error().message();
}

TEST(CheckInput, OfChannels) {
  EXPECT_EQ(refusal({}, {5, 5, 4}, {3, 3, 4}), "");
  EXPECT_EQ(refusal({}, {5, 5, 1}, {3, 3, 3}), "");
  EXPECT_EQ(refusal({}, {5, 5, 3}, {3, 3, 1}), "");
  EXPECT_EQ(refusal({}, {5, 5, 2}, {3, 3, 3}),
            "x: has images of 2 channels, but the net wants 3 (give the net channels=2)");
  EXPECT_NE(refusal({}, {5, 5, 3}, {3, 3, 4}), "");
}

TEST(CheckInput, OfVectors) {
  EXPECT_EQ(refusal({.flat = true}, {4, 2, 3}, {1, 1, 24}), "");
  EXPECT_EQ(refusal({.flat = true}, {4, 2, 3}, {1, 1, 3}),
            "x: has 24 values per image, but the net wants 3 (give the net inputs=24)");
  EXPECT_EQ(refusal({.flat = true}, {0, 0, 3}, {1, 1, 24}),
            "x: has images of all sizes, but the net wants vectors (give the net height, width "
            "and channels instead of inputs)");
}

// The values are in Darknet's order, channel by channel, and no augmentation option changes them.
TEST(PrepareImage, Flat) {
  const AugmentOptions options{.max_crop = 9, .angle = 90, .hue = 1, .flip = true, .flat = true};
  const std::vector<std::uint8_t> pixels{0, 1, 2, 3, 4, 5};
  for (std::uint64_t sample = 0; sample < 4; ++sample) {
    std::vector<float> seen(6);
    prepare_image(pixels, {1, 3, 2}, options, 1, sample, true, {1, 1, 6}, seen.data());
    EXPECT_EQ(seen, (std::vector<float>{0, 2 / 255.f, 4 / 255.f, 1 / 255.f, 3 / 255.f, 5 / 255.f}));
  }
  EXPECT_TRUE(keeps_bytes(options, {1, 3, 2}, true, {1, 1, 6}));
}

}  // namespace
}  // namespace omni
