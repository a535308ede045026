// These tests check the synthetic vectors. They can be learned, by a linear model only in part, and
// each depends only on its number and the options.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/data/open.hpp"
#include "runtime/data/synthetic.hpp"

namespace omni {
namespace {

using Floats = std::vector<float>;

Floats computed_vector(const Dataset& data, std::size_t index) {
  Image read;
  EXPECT_TRUE(data.read(index, {}, read));
  return read.values;
}

double dot_product(const Floats& a, const Floats& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// The test computes each class's mean, and the direction in which the class's two clouds of vectors
// lie from the mean.
TEST(SyntheticVectors, a_linear_model_learns_a_part) {
  for (const int features : {54, 300}) {
    const SyntheticOptions options{
        .size = 4000, .extent = {1, 1, features}, .classes = 2, .seed = 3};
    const SyntheticVectors train(options);
    const auto width = static_cast<std::size_t>(features);
    std::vector<Floats> means(2, Floats(width));
    for (std::size_t i = 0; i < train.size(); ++i) {
      const Floats vector = computed_vector(train, i);
      for (std::size_t f = 0; f < width; ++f)
        means[static_cast<std::size_t>(train.label(i))][f] += vector[f] / 2000;
    }
    // Returns the direction to a class's clouds, in which its vectors vary most, by power
    // iteration.
    std::vector<Floats> clouds(2, Floats(width));
    for (std::size_t label : {0u, 1u}) {
      Floats direction(width);
      for (std::size_t f = 0; f < width; ++f) direction[f] = f % 3 == 0 ? 1 : -0.5f;
      for (int round = 0; round < 12; ++round) {
        Floats next(width);
        for (std::size_t i = label; i < train.size(); i += 2) {
          const Floats vector = computed_vector(train, i);
          const double along =
              dot_product(vector, direction) - dot_product(means[label], direction);
          for (std::size_t f = 0; f < width; ++f)
            next[f] += static_cast<float>(along) * (vector[f] - means[label][f]);
        }
        const double length = std::sqrt(dot_product(next, next));
        for (std::size_t f = 0; f < width; ++f) direction[f] = next[f] / static_cast<float>(length);
      }
      clouds[label] = direction;
    }
    SyntheticVectors test([&] {
      SyntheticOptions other = options;
      other.training = false;
      return other;
    }());
    int linear = 0, with_clouds = 0;
    for (std::size_t i = 0; i < test.size(); ++i) {
      const Floats vector = computed_vector(test, i);
      const auto score = [&](std::size_t label, bool clouded) {
        const double centre =
            dot_product(vector, means[label]) - dot_product(means[label], means[label]) / 2;
        const double along =
            dot_product(vector, clouds[label]) - dot_product(means[label], clouds[label]);
        return centre + (clouded ? 3.5 * std::abs(along) : 0);
      };
      linear += (score(1, false) > score(0, false)) == (test.label(i) == 1);
      with_clouds += (score(1, true) > score(0, true)) == (test.label(i) == 1);
    }
    EXPECT_GT(linear, 0.70 * 4000) << features;
    EXPECT_LT(linear, 0.92 * 4000) << features;
    EXPECT_GT(with_clouds, 0.95 * 4000) << features;
  }
}

TEST(SyntheticVectors, follow_from_seed_split_and_index) {
  const SyntheticOptions options{.size = 10, .extent = {1, 1, 5}, .classes = 3, .seed = 7};
  SyntheticOptions other_split = options, other_seed = options;
  other_split.training = false;
  other_seed.seed = 8;
  const SyntheticVectors data(options);
  const Floats fourth = computed_vector(data, 4);
  EXPECT_EQ(computed_vector(SyntheticVectors(options), 4), fourth);
  EXPECT_NE(computed_vector(SyntheticVectors(other_split), 4), fourth);
  EXPECT_NE(computed_vector(SyntheticVectors(other_seed), 4), fourth);
  EXPECT_NE(computed_vector(data, 1), fourth);
  EXPECT_EQ(fourth.size(), 5u);
  EXPECT_EQ(data.label(4), 1);
  Image beyond;
  EXPECT_FALSE(data.read(10, {}, beyond));
}

TEST(SyntheticVectors, are_named_with_three_numbers) {
  const auto open = [](const std::string& source, Extent input = {1, 1, 54}) {
    return open_dataset({.source = source, .net_input = input, .flat = true, .classes = 7});
  };
  const auto pair = open("synthetic-vectors:581012:54:2");
  ASSERT_TRUE(pair) << pair.error().message();
  EXPECT_EQ(pair->train->size(), 581'012u);
  EXPECT_EQ(pair->test->size(), 58'101u);
  EXPECT_EQ(pair->train->extent(), (Extent{1, 1, 54}));
  EXPECT_EQ(pair->train->classes(), 2);
  EXPECT_EQ(pair->name, "synthetic-vectors:581012:54:2");
  const auto usual = open("synthetic-vectors:5", {1, 1, 9});
  ASSERT_TRUE(usual) << usual.error().message();
  EXPECT_EQ(usual->train->extent().c, 9);
  EXPECT_EQ(usual->train->classes(), 7);
  EXPECT_EQ(usual->test->size(), 1u);
  for (const char* source : {"synthetic-vectors:", "synthetic-vectors:5:0", "synthetic-vectors:1:x",
                             "synthetic-vectors:1:54:2:1"}) {
    const auto refused = open(source);
    ASSERT_FALSE(refused) << source;
    EXPECT_EQ(refused.error().kind, ErrorKind::usage);
    EXPECT_EQ(refused.error().hint,
              "synthetic-vectors[:VECTORS[:FEATURES[:CLASSES]]], each from 1 to 1000000000");
  }
  const auto wider = open("synthetic-vectors:5:300:2");
  ASSERT_FALSE(wider);
  EXPECT_EQ(wider.error().message(),
            "synthetic-vectors:5:300:2: has 300 values per image, but the net wants 54 (give "
            "the net inputs=300)");
}

}  // namespace
}  // namespace omni
