// These tests check the weights of ranks by hand-made speeds.
#include "scheduling/forecast/rank_shares.hpp"

#include <gtest/gtest.h>

#include "runtime/tasks/shares.hpp"

namespace omni {
namespace {

std::vector<int> weights_of(const std::vector<double>& speeds) { return weights_of_speeds(speeds); }

TEST(RankShares, AreEqualIfRanksAreAboutEquallyFast) {
  EXPECT_TRUE(weights_of({100, 100}).empty());
  EXPECT_TRUE(weights_of({100, 109}).empty());
  EXPECT_TRUE(weights_of({109, 100, 104}).empty());
  EXPECT_TRUE(weights_of({130, 100, 130, 130, 100, 100, 100, 100, 100, 100, 100}).size() > 0);
  EXPECT_TRUE(weights_of({130, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100}).empty())
      << "one of many fast ranks gains little";
}

TEST(RankShares, FollowTheSpeeds) {
  EXPECT_EQ(weights_of({200, 100}), (std::vector{2, 1}));
  EXPECT_EQ(weights_of({205, 97}), (std::vector{2, 1})) << "rounded to a quarter";
  EXPECT_EQ(weights_of({100, 310, 198}), (std::vector{1, 3, 2}));
  EXPECT_EQ(weights_of({100, 138}), (std::vector{8, 11}));
  EXPECT_EQ(weights_of({1e9, 1}), (std::vector{98304, 1}));
}

TEST(Shares, EveryOneGetsAnImage) {
  const auto shares = [](int all, const std::vector<int>& weights) {
    std::vector<int> each;
    const auto sharers = static_cast<int>(weights.size());
    for (int sharer = 0; sharer < sharers; ++sharer)
      each.push_back(first_of_share(sharer + 1, sharers, all, weights) -
                     first_of_share(sharer, sharers, all, weights));
    return each;
  };
  EXPECT_EQ(shares(32, {2, 1}), (std::vector{21, 11}));
  EXPECT_EQ(shares(32, {1, 1000}), (std::vector{1, 31}));
  EXPECT_EQ(shares(32, {1000, 1}), (std::vector{31, 1}));
  EXPECT_EQ(shares(4, {1000, 1, 1, 1000}), (std::vector{1, 1, 1, 1}));
  EXPECT_EQ(shares(6, {1, 1, 1000, 1}), (std::vector{1, 1, 3, 1}));
}

}  // namespace
}  // namespace omni
