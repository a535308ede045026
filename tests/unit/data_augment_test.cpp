// These tests check how images are prepared for a net: cut, resized, turned, and recoloured.
#include "runtime/data/augment.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

namespace omni {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Floats = std::vector<float>;

// Returns pixels of the values 0, 1, 2 ..., so that each pixel of a small image is unique.
Bytes counting(Extent extent) {
  Bytes pixels(extent.count());
  std::iota(pixels.begin(), pixels.end(), std::uint8_t{0});
  return pixels;
}

Floats prepare(const Bytes& pixels, Extent image, const AugmentOptions& options, Extent net,
               std::uint64_t sample, bool training = true, std::uint64_t seed = 1) {
  Floats dst(net.count() + 1, -1);
  prepare_image(pixels, image, options, seed, sample, training, net, dst.data());
  EXPECT_EQ(dst.back(), -1) << "wrote beyond the image";
  dst.pop_back();
  return dst;
}

Floats window(const Bytes& pixels, Extent image, Extent net, int top, int left) {
  Floats cut;
  for (int y = 0; y < net.h; ++y)
    for (int x = 0; x < net.w; ++x)
      for (int c = 0; c < net.c; ++c)
        cut.push_back(
            static_cast<float>(
                pixels[static_cast<std::size_t>(((top + y) * image.w + left + x) * image.c + c)]) /
            255.0f);
  return cut;
}

Floats mirrored(const Floats& pixels, Extent extent) {
  Floats out(pixels.size());
  for (int y = 0; y < extent.h; ++y)
    for (int x = 0; x < extent.w; ++x)
      for (int c = 0; c < extent.c; ++c)
        out[static_cast<std::size_t>((y * extent.w + x) * extent.c + c)] =
            pixels[static_cast<std::size_t>((y * extent.w + extent.w - 1 - x) * extent.c + c)];
  return out;
}

void expect_near(const Floats& a, const Floats& b, float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

TEST(PrepareImage, NothingAskedIsADivision) {
  for (const Extent extent : {Extent{4, 5, 3}, {7, 3, 1}, {2, 2, 4}}) {
    const Bytes pixels = counting(extent);
    const Floats expected = window(pixels, extent, extent, 0, 0);
    EXPECT_EQ(prepare(pixels, extent, {}, extent, 3), expected);
    EXPECT_EQ(prepare(pixels, extent, {}, extent, 3, false), expected);
  }
  EXPECT_EQ(prepare({255}, {1, 1, 1}, {}, {1, 1, 1}, 0), Floats{1});
}

TEST(PrepareImage, TrainingCutsEveryWindowOfALargerImage) {
  const Extent image{8, 9, 3}, net{6, 5, 3};
  const Bytes pixels = counting(image);
  std::set<Floats> possible, seen;
  for (int top = 0; top <= 2; ++top)
    for (int left = 0; left <= 4; ++left) possible.insert(window(pixels, image, net, top, left));
  for (std::uint64_t sample = 0; sample < 300; ++sample)
    seen.insert(prepare(pixels, image, {}, net, sample));
  EXPECT_EQ(seen, possible);
}

TEST(PrepareImage, TestingAndCenterCutTheCentre) {
  const Extent image{8, 9, 3}, net{6, 5, 3};
  const Bytes pixels = counting(image);
  const AugmentOptions every{.min_crop = 8,
                             .max_crop = 20,
                             .angle = 30,
                             .aspect = 2,
                             .saturation = 2,
                             .exposure = 2,
                             .hue = 0.5f,
                             .flip = true};
  EXPECT_EQ(prepare(pixels, image, {}, net, 1, false), window(pixels, image, net, 1, 2));
  // min_crop is the image's height. The other options must have no effect on test images.
  EXPECT_EQ(prepare(pixels, image, every, net, 1, false), window(pixels, image, net, 1, 2));
  EXPECT_EQ(
      prepare(pixels, image,
              {.min_crop = 8, .max_crop = 20, .center = true, .angle = 30, .aspect = 2}, net, 1),
      window(pixels, image, net, 1, 2));
}

// Caffe's crop_size cuts windows in this way.
TEST(PrepareImage, AtItsOwnSizeAWindowIsCutWhateverTheOthersSizes) {
  const Extent image{9, 12, 3}, net{6, 5, 3};
  const Bytes pixels = counting({9, 12, 3});
  const AugmentOptions options{.all_sizes = true, .own_size = true};
  std::set<Floats> possible, seen;
  for (int top = 0; top <= 3; ++top)
    for (int left = 0; left <= 7; ++left) possible.insert(window(pixels, image, net, top, left));
  for (std::uint64_t sample = 0; sample < 600; ++sample)
    seen.insert(prepare(pixels, image, options, net, sample));
  EXPECT_EQ(seen, possible);
  EXPECT_EQ(prepare(pixels, image, options, net, 0, false), window(pixels, image, net, 1, 3))
      << "half of 3 and of 7 pixels is rounded down";
  EXPECT_TRUE(check_input(options, image, net, ""));
  EXPECT_TRUE(check_input(options, {0, 0, 3}, net, "")) << "each is checked when it is read";
  for (const Extent small : {Extent{5, 12, 3}, {9, 4, 3}})
    EXPECT_FALSE(check_input(options, small, net, ""));
  const LeastSize least = least_size(options, 1, 0, true, net);
  EXPECT_EQ(least.needed_h, 6);
  EXPECT_EQ(least.needed_w, 5);
  EXPECT_EQ(least.h, LeastSize{}.h) << "no reduced size";
}

TEST(PrepareImage, DependsOnSeedAndSampleOnly) {
  const Extent image{20, 24, 3}, net{16, 16, 3};
  const Bytes pixels = counting(image);
  const AugmentOptions options{.min_crop = 16,
                               .max_crop = 30,
                               .angle = 15,
                               .aspect = 1.5f,
                               .saturation = 1.5f,
                               .exposure = 1.5f,
                               .hue = 0.1f,
                               .flip = true};
  const Floats first = prepare(pixels, image, options, net, 12);
  EXPECT_NE(prepare(pixels, image, options, net, 13), first);
  EXPECT_NE(prepare(pixels, image, options, net, 12, true, 2), first);
  EXPECT_EQ(prepare(pixels, image, options, net, 12), first);
}

TEST(PrepareImage, AnOptionLeavesTheOthersDrawsAlone) {
  const Extent image{9, 9, 1}, net{6, 6, 1};
  const Bytes pixels = counting(image);
  for (std::uint64_t sample = 0; sample < 50; ++sample) {
    const Floats plain = prepare(pixels, image, {}, net, sample);
    const Floats flipped = prepare(pixels, image, {.flip = true}, net, sample);
    EXPECT_TRUE(flipped == plain || flipped == mirrored(plain, net)) << sample;
  }
}

TEST(PrepareImage, FlipMirrorsHalfOfTheImages) {
  const Extent extent{3, 4, 3};
  const Bytes pixels = counting(extent);
  const Floats straight = window(pixels, extent, extent, 0, 0);
  int mirrors = 0;
  for (std::uint64_t sample = 0; sample < 1000; ++sample) {
    const Floats seen = prepare(pixels, extent, {.flip = true}, extent, sample);
    if (seen == straight) continue;
    ASSERT_EQ(seen, mirrored(straight, extent));
    ++mirrors;
  }
  EXPECT_NEAR(mirrors, 500, 80);
}

TEST(PrepareImage, BilinearResizeKnownAnswer) {
  // In a doubled image the pixels' centres lie at -1/4, 1/4, 3/4 and 5/4 of the old pixels.
  const Floats wide = prepare({0, 100}, {1, 2, 1}, {}, {1, 2, 1}, 0, false);
  EXPECT_EQ(wide, (Floats{0, 100.0f / 255}));
  const Floats doubled = prepare({0, 100, 100, 200}, {2, 2, 1}, {}, {4, 4, 1}, 0, false);
  const Floats line{0, 25, 75, 100};
  for (std::size_t y = 0; y < 4; ++y)
    for (std::size_t x = 0; x < 4; ++x)
      EXPECT_NEAR(doubled[4 * y + x] * 255, line[y] + line[x], 1e-3) << y << ' ' << x;
}

TEST(PrepareImage, ResizingKeepsARamp) {
  // Bilinear sampling must reproduce values that are linear in x and y, except near the edges.
  const Extent image{24, 32, 3};
  Bytes pixels;
  for (int y = 0; y < image.h; ++y)
    for (int x = 0; x < image.w; ++x)
      for (int c = 0; c < 3; ++c) pixels.push_back(static_cast<std::uint8_t>(4 * x + 3 * y + c));
  for (const Extent net : {Extent{36, 48, 3}, {36, 36, 3}, {48, 64, 3}}) {
    const float scale = static_cast<float>(net.h) / 24;
    const Floats seen = prepare(pixels, image, {}, net, 0, false);
    for (int y = 2; y < net.h - 2; ++y)
      for (int x = 2; x < net.w - 2; ++x) {
        const float from_y = (static_cast<float>(y) + 0.5f) / scale - 0.5f;
        const float from_x =
            (static_cast<float>(x) + 0.5f - static_cast<float>(net.w) / 2) / scale + 16 - 0.5f;
        ASSERT_NEAR(seen[static_cast<std::size_t>((y * net.w + x) * 3 + 1)] * 255,
                    4 * from_x + 3 * from_y + 1, 0.01)
            << net.h << 'x' << net.w << " at " << y << ' ' << x;
      }
  }
}

// Returns the factors by which 900 samples were enlarged: the steps of a ramp shrink by them.
std::vector<float> enlargements(const AugmentOptions& options) {
  const Extent extent{8, 8, 1};
  Bytes pixels;
  for (int i = 0; i < 64; ++i) pixels.push_back(static_cast<std::uint8_t>(20 * (i % 8)));
  std::vector<float> seen;
  for (std::uint64_t sample = 0; sample < 900; ++sample) {
    const Floats image = prepare(pixels, extent, options, extent, sample);
    float step = 0;  // the largest, because the ramp is flat within half a pixel of the edges
    for (std::size_t x = 0; x + 1 < 8; ++x) step = std::max(step, image[x + 1] - image[x]);
    seen.push_back(20.0f / 255 / step);
  }
  std::sort(seen.begin(), seen.end());
  return seen;
}

TEST(PrepareImage, CropDrawsTheShorterSideEvenly) {
  for (const AugmentOptions& options :
       {AugmentOptions{.min_crop = 8, .max_crop = 16}, {.min_crop = 8}, {.max_crop = 16}}) {
    const std::vector<float> seen = enlargements(options);
    EXPECT_NEAR(seen.front(), 1, 1e-3);
    EXPECT_NEAR(seen.back(), 2, 1e-3);
    for (int side = 8; side <= 16; ++side) {  // each about 100 times of 900
      const auto count = std::count_if(seen.begin(), seen.end(), [&](float enlarged) {
        return std::fabs(8 * enlarged - static_cast<float>(side)) < 0.1f;
      });
      EXPECT_NEAR(static_cast<double>(count), 100, 45) << side;
    }
  }
  const std::vector<float> fixed = enlargements({.min_crop = 12, .max_crop = 12});
  EXPECT_NEAR(fixed.front(), 1.5, 1e-3);
  EXPECT_NEAR(fixed.back(), 1.5, 1e-3);
}

TEST(PrepareImage, WindowsStayInsideTheImage) {
  // Ramps to the right (red) and down (green) become flat where a window leaves the image. Images
  // are enlarged at most twofold, so one pixel at each end may lie beyond the last pixel's centre.
  const Extent net{8, 8, 3};
  for (const Extent image : {Extent{9, 16, 3}, {16, 9, 3}, {9, 9, 3}}) {
    Bytes pixels;
    for (int y = 0; y < image.h; ++y)
      for (int x = 0; x < image.w; ++x)
        for (const int value : {10 * x, 10 * y, 0})
          pixels.push_back(static_cast<std::uint8_t>(value));
    bool touched_left = false, touched_right = false;
    for (std::uint64_t sample = 0; sample < 300; ++sample) {
      const Floats seen =
          prepare(pixels, image, {.min_crop = 9, .max_crop = 11, .aspect = 1.3f}, net, sample);
      const auto at = [&](std::size_t y, std::size_t x, std::size_t c) {
        return seen[(y * 8 + x) * 3 + c] * 255;
      };
      for (const std::size_t edge : {0u, 6u}) {
        ASSERT_GT(at(0, edge + 1, 0) - at(0, edge, 0), 1) << "across, sample " << sample;
        ASSERT_GT(at(edge + 1, 0, 1) - at(edge, 0, 1), 1) << "down, sample " << sample;
      }
      touched_left |= at(0, 0, 0) < 5;
      touched_right |= at(0, 7, 0) > 10 * static_cast<float>(image.w - 1) - 5;
    }
    EXPECT_TRUE(touched_left && touched_right) << "windows reach from edge to edge";
  }
}

TEST(PrepareImage, ImagesOfAllSizesJustCoverTheNet) {
  // An image of 40 x 20 becomes one of 20 x 10. A window of 10 x 10 is cut at a random place along
  // the longer side.
  const Extent image{40, 20, 1}, net{10, 10, 1};
  Bytes pixels;
  for (int i = 0; i < 800; ++i) pixels.push_back(static_cast<std::uint8_t>(6 * (i / 20)));
  const auto top_and_step = [&](std::uint64_t sample, bool training) {
    const Floats seen = prepare(pixels, image, {.all_sizes = true}, net, sample, training);
    return std::pair(seen[0] * 255 / 6, (seen[10] - seen[0]) * 255 / 6);
  };
  EXPECT_NEAR(top_and_step(0, false).first, 10.5, 0.01) << "the centre";
  float least = 99, most = 0;
  for (std::uint64_t sample = 0; sample < 200; ++sample) {
    const auto [top, step] = top_and_step(sample, true);
    ASSERT_NEAR(step, 2, 0.01);
    least = std::min(least, top);
    most = std::max(most, top);
  }
  EXPECT_NEAR(least, 0.5, 0.5);
  EXPECT_NEAR(most, 20.5, 0.5);
}

TEST(LeastSize, IsWhatTheWindowNeeds) {
  const Extent net{10, 12, 3};
  const auto size = [&](const AugmentOptions& options, bool training = true) {
    const LeastSize least = least_size(options, 1, 5, training, net);
    return std::pair(least.h, least.w);
  };
  constexpr int kOwn = std::numeric_limits<int>::max();
  EXPECT_EQ(size({}), std::pair(kOwn, kOwn)) << "cut at its own size";
  EXPECT_EQ(size({.all_sizes = true}), std::pair(10, 12));
  EXPECT_EQ(size({.min_crop = 30, .max_crop = 30}), std::pair(30, 30));
  EXPECT_EQ(size({.min_crop = 5, .max_crop = 5}), std::pair(10, 12));
  EXPECT_EQ(size({.min_crop = 30, .max_crop = 90}, false), std::pair(30, 30));
  const auto [h, w] = size({.min_crop = 30, .max_crop = 90, .aspect = 2});
  EXPECT_GE(h, 30);
  EXPECT_NE(h, w) << "across, the aspect counts, too";
}

TEST(PrepareImage, RotationTurnsAroundTheCentre) {
  // A bright dot to the right of the centre moves along a circle, by at most the given angle.
  const Extent extent{33, 33, 1};
  Bytes pixels(extent.count(), 0);
  pixels[16 * 33 + 26] = 255;
  double least = 90, most = -90;
  for (std::uint64_t sample = 0; sample < 300; ++sample) {
    const Floats seen = prepare(pixels, extent, {.angle = 40}, extent, sample);
    double mass = 0, y = 0, x = 0;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const double value = seen[i];
      mass += value;
      y += value * (static_cast<double>(i / 33) - 16);
      x += value * (static_cast<double>(i % 33) - 16);
    }
    ASSERT_GT(mass, 0.2);
    const double degrees = std::atan2(y / mass, x / mass) * 180 / M_PI;
    ASSERT_NEAR(std::hypot(y / mass, x / mass), 10, 0.6);
    ASSERT_LT(std::fabs(degrees), 41);
    least = std::min(least, degrees);
    most = std::max(most, degrees);
  }
  EXPECT_LT(least, -36);
  EXPECT_GT(most, 36);
}

TEST(PrepareImage, EdgesGoOnWhereARotationLeavesTheImage) {
  const Extent extent{9, 9, 3};
  const Bytes pixels(extent.count(), 77);
  for (std::uint64_t sample = 0; sample < 20; ++sample)
    expect_near(prepare(pixels, extent, {.angle = 180, .aspect = 2}, extent, sample),
                Floats(extent.count(), 77.0f / 255), 1e-6f);
}

TEST(PrepareImage, Channels) {
  EXPECT_EQ(prepare({10, 20}, {1, 2, 1}, {}, {1, 2, 3}, 0),
            (Floats{10 / 255.f, 10 / 255.f, 10 / 255.f, 20 / 255.f, 20 / 255.f, 20 / 255.f}));
  const Floats grey =
      prepare({255, 255, 255, 255, 0, 0, 0, 255, 0, 0, 0, 255}, {2, 2, 3}, {}, {2, 2, 1}, 0);
  EXPECT_EQ(grey, (Floats{1, 76 / 255.f, 150 / 255.f, 29 / 255.f}));
}

TEST(PrepareImage, ExposureStaysWithinItsFactor) {
  const Extent extent{1, 1, 3};
  float low = 1, high = 0;
  for (std::uint64_t sample = 0; sample < 500; ++sample) {
    const Floats seen = prepare({100, 100, 100}, extent, {.exposure = 0.5f}, extent, sample);
    EXPECT_NEAR(seen[0], seen[1], 1e-6);
    low = std::min(low, seen[0]);
    high = std::max(high, seen[0]);
  }
  EXPECT_NEAR(low, 50 / 255.f, 0.01);  // below 1 means the same as its reciprocal
  EXPECT_NEAR(high, 200 / 255.f, 0.01);
}

TEST(PrepareImage, HueTurnsBothWays) {
  const Extent extent{1, 1, 3};
  float most_green = 0, most_blue = 0;
  for (std::uint64_t sample = 0; sample < 300; ++sample) {
    const Floats seen = prepare({255, 0, 0}, extent, {.hue = 1 / 12.f}, extent, sample);
    ASSERT_NEAR(seen[0], 1, 1e-6);
    most_green = std::max(most_green, seen[1]);
    most_blue = std::max(most_blue, seen[2]);
  }
  EXPECT_NEAR(most_green, 0.5, 0.02);
  EXPECT_NEAR(most_blue, 0.5, 0.02);
}

TEST(ShiftColours, KnownAnswers) {
  const auto shifted = [](Floats pixel, const ColourShift& shift) {
    shift_colours(pixel, 3, shift);
    return pixel;
  };
  const Floats mixed{0.8f, 0.2f, 0.4f};
  EXPECT_EQ(shifted(mixed, {}), mixed);
  expect_near(shifted(mixed, {.hue = 1}), mixed, 1e-6f);
  expect_near(shifted(mixed, {.hue = 1 / 3.f}), {0.4f, 0.8f, 0.2f}, 1e-6f);
  expect_near(shifted(mixed, {.hue = -1 / 3.f}), {0.2f, 0.4f, 0.8f}, 1e-6f);
  expect_near(shifted({0.2f, 0.8f, 0.4f}, {.hue = 1 / 3.f}), {0.4f, 0.2f, 0.8f}, 1e-6f);
  expect_near(shifted({0.2f, 0.4f, 0.8f}, {.hue = 1 / 3.f}), {0.8f, 0.2f, 0.4f}, 1e-6f);
  expect_near(shifted({1, 0, 0}, {.hue = 0.5f}), {0, 1, 1}, 1e-6f);
  expect_near(shifted({1, 0, 0}, {.hue = 1 / 6.f}), {1, 1, 0}, 1e-6f);
  expect_near(shifted(mixed, {.saturation = 0}), {0.8f, 0.8f, 0.8f}, 1e-6f);
  expect_near(shifted(mixed, {.saturation = 0.5f}), {0.8f, 0.5f, 0.6f}, 1e-6f);
  // A saturation of 1 / 0.75 saturates the colour fully. A larger one must not change its hue.
  expect_near(shifted(mixed, {.saturation = 9}), {0.8f, 0, 0.8f / 3}, 1e-6f);
  expect_near(shifted(mixed, {.exposure = 0.5f}), {0.4f, 0.1f, 0.2f}, 1e-6f);
  expect_near(shifted(mixed, {.exposure = 2}), {1, 0.4f, 0.8f}, 1e-6f);
  expect_near(shifted({0, 0, 0}, {0.3f, 2, 2}), {0, 0, 0}, 0);
  expect_near(shifted({0.5f, 0.5f, 0.5f}, {0.3f, 2, 1}), {0.5f, 0.5f, 0.5f}, 1e-6f);
}

TEST(ShiftColours, GreyOnlyChangesExposure) {
  Floats pixels{0.25f, 0.75f};
  shift_colours(pixels, 1, {0.3f, 0.1f, 2});
  EXPECT_EQ(pixels, (Floats{0.5f, 1}));
}

}  // namespace
}  // namespace omni
