// These tests check the synthetic images. They can be learned, though not from one pixel, and each
// depends only on its index and the options.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/data/synthetic.hpp"

namespace omni {
namespace {

std::vector<std::uint8_t> image(const SyntheticDataset& data, std::size_t index) {
  Image image;
  EXPECT_TRUE(data.read(index, {}, image));
  return image.pixels;
}

using Features = std::vector<double>;
using Extract = Features (*)(const std::vector<std::uint8_t>&, Extent);

// Returns a texture's features: mean squared differences of neighbours in 12 directions, which do
// not depend on the texture's position.
Features textures(const std::vector<std::uint8_t>& pixels, Extent extent) {
  Features features;
  for (const auto& [dy, dx] : {std::pair{0, 1},
                               {1, 0},
                               {1, 1},
                               {1, -1},
                               {0, 3},
                               {3, 0},
                               {2, 3},
                               {3, 2},
                               {2, -3},
                               {3, -2},
                               {0, 5},
                               {5, 0}})
    for (int c = 0; c < extent.c; ++c) {
      double sum = 0, total = 1;
      for (int y = 0; y + dy < extent.h; ++y)
        for (int x = std::max(0, -dx); x + std::max(0, dx) < extent.w; ++x) {
          const auto at = [&](int row, int column) {
            return static_cast<double>(
                pixels[static_cast<std::size_t>((row * extent.w + column) * extent.c + c)]);
          };
          const double difference = at(y, x) - at(y + dy, x + dx);
          sum += difference * difference;
          total += at(y, x) * at(y, x) / 64;
        }
      features.push_back(std::log(sum / total));
    }
  const double mean = [&] {
    double sum = 0;
    for (const double value : features) sum += value;
    return sum / static_cast<double>(features.size());
  }();
  for (double& value : features) value -= mean;  // contrast says nothing about the class
  return features;
}

Features all_pixels(const std::vector<std::uint8_t>& pixels, Extent) {
  return {pixels.begin(), pixels.end()};
}

// Returns the test accuracy of a classifier that picks the class with the nearest mean of the
// training features.
double accuracy(Extent extent, int classes, Extract extract) {
  const SyntheticDataset train({.size = 600, .extent = extent, .classes = classes});
  const SyntheticDataset test(
      {.size = 300, .extent = extent, .classes = classes, .training = false});
  const std::size_t length = extract(image(train, 0), extent).size();
  std::vector<Features> means(static_cast<std::size_t>(classes), Features(length));
  for (std::size_t i = 0; i < train.size(); ++i) {
    const Features features = extract(image(train, i), extent);
    for (std::size_t f = 0; f < length; ++f)
      means[static_cast<std::size_t>(train.label(i))][f] +=
          features[f] * classes / static_cast<double>(train.size());
  }
  int right = 0;
  for (std::size_t i = 0; i < test.size(); ++i) {
    const Features features = extract(image(test, i), extent);
    int best = -1;
    double nearest = std::numeric_limits<double>::max();
    for (int k = 0; k < classes; ++k) {
      double distance = 0;
      for (std::size_t f = 0; f < length; ++f) {
        const double away = features[f] - means[static_cast<std::size_t>(k)][f];
        distance += away * away;
      }
      if (distance < nearest) nearest = distance, best = k;
    }
    right += best == test.label(i);
  }
  return right / static_cast<double>(test.size());
}

// Returns the accuracy of the best rule that looks at a single pixel: it guesses the most frequent
// class of each of 16 value ranges.
double best_pixel_accuracy(Extent extent, int classes) {
  const SyntheticDataset train({.size = 2000, .extent = extent, .classes = classes});
  const auto cells = static_cast<std::size_t>(16 * classes);
  std::vector<std::vector<int>> counts(extent.count(), std::vector<int>(cells));
  for (std::size_t i = 0; i < train.size(); ++i) {
    const auto pixels = image(train, i);
    for (std::size_t p = 0; p < pixels.size(); ++p)
      ++counts[p][static_cast<std::size_t>(pixels[p] / 16 * classes + train.label(i))];
  }
  double best = 0;
  for (const auto& count : counts) {
    int right = 0;
    for (auto bin = count.begin(); bin != count.end(); bin += classes)
      right += *std::max_element(bin, bin + classes);
    best = std::max(best, right / static_cast<double>(train.size()));
  }
  return best;
}

TEST(Synthetic, TexturesTellTheClass) {
  EXPECT_GT(accuracy({28, 28, 1}, 10, textures), 0.8);
  EXPECT_GT(accuracy({32, 32, 3}, 10, textures), 0.8);
  EXPECT_GT(accuracy({64, 48, 3}, 10, textures), 0.8);
}

TEST(Synthetic, ALinearModelBeatsChance) {
  EXPECT_GT(accuracy({28, 28, 1}, 10, all_pixels), 0.4);
  EXPECT_GT(accuracy({32, 32, 3}, 30, all_pixels), 0.2);
}

TEST(Synthetic, OnePixelSaysLittle) {
  EXPECT_LT(best_pixel_accuracy({28, 28, 1}, 10), 0.3);
  EXPECT_LT(best_pixel_accuracy({16, 16, 3}, 10), 0.35);
}

TEST(Synthetic, AnImageDependsOnSeedSplitAndIndexOnly) {
  const SyntheticOptions options{.size = 100, .extent = {20, 30, 3}, .seed = 7};
  const SyntheticDataset data(options), again(options);
  SyntheticOptions changed = options;
  changed.training = false;
  const SyntheticDataset test(changed);
  changed = options;
  changed.seed = 8;
  const SyntheticDataset other_seed(changed);
  const auto last = image(again, 99);  // reading in another order
  EXPECT_EQ(image(data, 3), image(again, 3));
  EXPECT_EQ(image(data, 99), last);
  EXPECT_NE(image(data, 3), image(data, 13));
  EXPECT_NE(image(data, 3), image(test, 3));
  EXPECT_NE(image(data, 3), image(other_seed, 3));
  EXPECT_EQ(data.label(3), other_seed.label(3));
}

TEST(Synthetic, SplitsShareNoImage) {
  const Extent extent{6, 6, 1};
  const SyntheticDataset train({.size = 300, .extent = extent});
  const SyntheticDataset test({.size = 300, .extent = extent, .training = false});
  std::set<std::string> distinct;
  for (std::size_t i = 0; i < 300; ++i)
    for (const auto& pixels : {image(train, i), image(test, i)})
      distinct.emplace(pixels.begin(), pixels.end());
  EXPECT_EQ(distinct.size(), 600u);
}

TEST(Synthetic, AnySize) {
  for (const Extent extent : {Extent{1, 1, 1}, {1, 7, 2}, {3, 1, 3}, {5, 5, 17}, {227, 227, 3}}) {
    const SyntheticDataset data({.size = 20, .extent = extent, .classes = 1000});
    const auto pixels = image(data, 19);
    if (extent.count() > 100) {
      const auto [low, high] = std::minmax_element(pixels.begin(), pixels.end());
      EXPECT_GT(*high - *low, 50) << extent.h;
    }
    EXPECT_EQ(data.label(19), 19);
    EXPECT_EQ(data.classes(), 1000);
  }
}

TEST(Synthetic, ClassesAreBalanced) {
  const SyntheticDataset data({.size = 1000, .classes = 7});
  std::vector<int> counts(7);
  for (std::size_t i = 0; i < data.size(); ++i)
    ++counts.at(static_cast<std::size_t>(data.label(i)));
  const auto [low, high] = std::minmax_element(counts.begin(), counts.end());
  EXPECT_LE(*high - *low, 1);
}

TEST(Synthetic, ThreadsReadTheSame) {
  const SyntheticDataset data({.size = 64, .extent = {24, 24, 3}});
  std::vector<std::vector<std::uint8_t>> seen(4);
  std::vector<std::thread> threads;
  for (auto& bytes : seen)
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < data.size(); ++i) {
        const auto pixels = image(data, i);
        bytes.insert(bytes.end(), pixels.begin(), pixels.end());
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& bytes : seen) EXPECT_EQ(bytes, seen[0]);
}

TEST(Synthetic, RefusesWhatIsNotThere) {
  const SyntheticDataset data({.size = 5, .extent = {4, 4, 1}});
  Image image;
  EXPECT_FALSE(data.read(5, {}, image));
  EXPECT_NE(data.description().find("synthetic"), std::string::npos);
}

}  // namespace
}  // namespace omni
