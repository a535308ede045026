// These tests check that each epoch has every image once, in an order that depends only on the seed
// and the epoch.
#include "runtime/data/feed/data_feed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "runtime/data/sampler.hpp"

namespace omni {
namespace {

std::vector<std::size_t> epoch_of(const Sampler& sampler, std::uint64_t epoch) {
  std::vector<std::size_t> order(sampler.size());
  sampler.indices(epoch * sampler.size(), order);
  return order;
}

TEST(Sampler, EveryImageOncePerEpoch) {
  for (const std::size_t size :
       {1u, 2u, 3u, 4u, 5u, 7u, 10u, 16u, 17u, 99u, 100u, 101u, 1000u, 4097u, 60000u})
    for (const std::uint64_t epoch : {0u, 1u, 17u}) {
      auto order = epoch_of(Sampler(size, 42, true), epoch);
      std::sort(order.begin(), order.end());
      std::vector<std::size_t> all(size);
      std::iota(all.begin(), all.end(), 0);
      ASSERT_EQ(order, all) << "size " << size << ", epoch " << epoch;
    }
}

TEST(Sampler, EpochsAndSeedsDiffer) {
  const Sampler sampler(1000, 1, true), other(1000, 2, true);
  EXPECT_NE(epoch_of(sampler, 0), epoch_of(sampler, 1));
  EXPECT_NE(epoch_of(sampler, 0), epoch_of(other, 0));
  EXPECT_NE(epoch_of(sampler, 1), epoch_of(other, 0)) << "seed and epoch must not simply add up";
  EXPECT_EQ(epoch_of(sampler, 3), epoch_of(Sampler(1000, 1, true), 3));
}

TEST(Sampler, BatchesDoNotMatter) {
  const Sampler sampler(103, 5, true);
  std::vector<std::size_t> straight(500), pieces;
  sampler.indices(60, straight);
  for (std::uint64_t first = 60; pieces.size() < straight.size();) {
    std::vector<std::size_t> piece(std::min<std::size_t>(1 + first % 37, 560 - first));
    sampler.indices(first, piece);
    pieces.insert(pieces.end(), piece.begin(), piece.end());
    first += piece.size();
  }
  EXPECT_EQ(pieces, straight);
  EXPECT_EQ(sampler.epoch(102), 0u);
  EXPECT_EQ(sampler.epoch(103), 1u);
}

TEST(Sampler, UnshuffledIsInOrder) {
  const Sampler sampler(10, 5, false);
  std::vector<std::size_t> order(12);
  sampler.indices(8, order);
  EXPECT_EQ(order, (std::vector<std::size_t>{8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

// Chi-square tests compare the orders with a uniform distribution: each image at each place, and
// each image after each other image.
TEST(Sampler, OrdersAreUniform) {
  for (const std::size_t size : {2u, 3u, 5u, 12u, 30u}) {
    const Sampler sampler(size, 9, true);
    constexpr int kEpochs = 6000;
    std::vector<int> places(size * size), followers(size * size);
    for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const auto order = epoch_of(sampler, epoch);
      for (std::size_t i = 0; i < size; ++i) {
        ++places[i * size + order[i]];
        if (i > 0) ++followers[order[i - 1] * size + order[i]];
      }
    }
    const auto excess = [&](const std::vector<int>& counts, double expected, double freedom) {
      double sum = 0;
      for (std::size_t i = 0; i < counts.size(); ++i) {
        if (&counts == &followers && i % (size + 1) == 0)
          continue;  // an image never follows itself
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
      }
      return (sum - freedom) / std::sqrt(2 * freedom);  // in standard deviations
    };
    const auto n = static_cast<double>(size);
    EXPECT_LT(excess(places, kEpochs / n, (n - 1) * (n - 1)), 5) << size;
    EXPECT_LT(excess(followers, kEpochs / n, n * (n - 1) - 1), 5) << size;
  }
}

TEST(Sampler, EveryOrderOccurs) {
  const Sampler sampler(4, 9, true);
  std::set<std::vector<std::size_t>> orders;
  for (std::uint64_t epoch = 0; epoch < 400; ++epoch) orders.insert(epoch_of(sampler, epoch));
  EXPECT_EQ(orders.size(), 24u);
}

TEST(Sampler, ThreadsSeeTheSameOrder) {
  const Sampler sampler(5000, 3, true);
  std::array<std::vector<std::size_t>, 4> seen;
  std::vector<std::thread> threads;
  for (auto& order : seen)
    threads.emplace_back([&] {
      order.resize(12000);
      for (std::size_t first = 0; first < order.size(); first += 100)
        sampler.indices(first, std::span(order).subspan(first, 100));
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& order : seen) EXPECT_EQ(order, seen[0]);
}

}  // namespace
}  // namespace omni
