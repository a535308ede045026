// Iterations on several nodes, by hand.
#include "scheduling/model/node_forecast.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace omni {
namespace {

const NodeCosts kNodeCosts{
    .compute = 8, .merged = 1, .parameters = std::vector<double>(8, 50), .activations = 50};
constexpr Machine::Link kNodeLink{.seconds = 0.5, .bytes_per_second = 100};

NodeForecast row(int nodes, int groups) {
  for (const NodeForecast& each : forecast_nodes(kNodeCosts, kNodeLink, std::vector{nodes}))
    if (each.groups == groups) return each;
  return {};
}

TEST(NodeForecast, OneNodeHasNoNetwork) {
  EXPECT_EQ(row(1, 1).network, 0);
  EXPECT_DOUBLE_EQ(row(1, 1).seconds(), 9);
}

TEST(NodeForecast, NodesOfAGroupShareTheMiniBatch) {
  const NodeForecast two = row(2, 1);
  EXPECT_DOUBLE_EQ(two.compute, 4);
  EXPECT_DOUBLE_EQ(two.network, 2 * (0.5 + 200.0 / 100));
  EXPECT_DOUBLE_EQ(two.merged, 1 + 2 * (0.5 + 0.5));
  EXPECT_DOUBLE_EQ(two.seconds(), 4.0 / 3 + 5 + 3);
}

TEST(NodeForecast, NothingIsSentInTheForwardPass) {
  EXPECT_DOUBLE_EQ((NodeForecast{.compute = 6, .network = 3}).seconds(), 6);
  EXPECT_DOUBLE_EQ((NodeForecast{.compute = 6, .network = 5}).seconds(), 7);
  EXPECT_DOUBLE_EQ((NodeForecast{.compute = 6, .network = 60}).seconds(), 62);
}

// The owner of the large part receives it from all others, and nobody else has as much to do.
TEST(NodeForecast, TheBusiestNodeCounts) {
  NodeCosts uneven = kNodeCosts;
  uneven.parameters = {100, 300};
  const auto rows = forecast_nodes(uneven, kNodeLink, std::vector{2, 4});
  EXPECT_DOUBLE_EQ(rows[0].network, 2 * (0.5 + 300.0 / 100));
  EXPECT_DOUBLE_EQ(rows[2].network, 2 * (0.5 + 900.0 / 100));
}

// Each node of a group sums a block of the weights: no node sends or receives all of them.
TEST(NodeForecast, NodesOfAGroupDivideLargeWeights) {
  constexpr double kBytes = 4 * 200'000;
  NodeCosts costs{.compute = 8, .divisible = {kBytes}};
  const auto rows = forecast_nodes(costs, kNodeLink, std::vector{2, 4});
  EXPECT_DOUBLE_EQ(rows[0].network, 2 * (0.5 + kBytes / 2 / 100));
  EXPECT_DOUBLE_EQ(rows[1].network, 2 * (0.5 + kBytes / 100))
      << "groups of one node divide nothing";
  EXPECT_DOUBLE_EQ(rows[2].network, 2 * (0.5 + kBytes * 3 / 4 / 100));
  costs.cores = 16;
  EXPECT_DOUBLE_EQ(forecast_nodes(costs, kNodeLink, std::vector{8})[2].network,
                   2 * (0.5 + kBytes * 7 / 8 / 100))
      << "four groups of two nodes: a block for each of eight";
  costs.divisible = {400};
  EXPECT_DOUBLE_EQ(forecast_nodes(costs, kNodeLink, std::vector{2})[0].network, 2 * (0.5 + 4))
      << "small weights stay whole";
}

TEST(NodeForecast, GroupsOverlapUntilTheMergedPhaseIsFull) {
  EXPECT_DOUBLE_EQ(row(2, 2).seconds(), (8 + 3) / 2.0);
  EXPECT_DOUBLE_EQ(row(8, 8).seconds(), 3);  // more than (8 / 3 + 8 + 3) / 8
}

TEST(NodeForecast, HasEveryDividingNumberOfGroups) {
  std::vector<std::pair<int, int>> found;
  for (const NodeForecast& each : forecast_nodes(kNodeCosts, kNodeLink, std::vector{1, 6, 4}))
    found.emplace_back(each.nodes, each.groups);
  EXPECT_THAT(found, testing::ElementsAre(std::pair(1, 1), std::pair(6, 1), std::pair(6, 2),
                                          std::pair(4, 1), std::pair(4, 2), std::pair(4, 4)));
}

TEST(LinkSpeed, IsRateAndLatency) {
  const auto link = parse_link("1gbit:50us");
  ASSERT_TRUE(link);
  EXPECT_DOUBLE_EQ(link->bytes_per_second, 125e6);
  EXPECT_DOUBLE_EQ(link->seconds, 50e-6);
  EXPECT_DOUBLE_EQ(parse_link("2.5mbit")->bytes_per_second, 312500);
  for (const char* wrong :
       {"", "1", "gbit", "-1gbit", "1gbit:", "1gbit:5", "1gbit:50us:", "nangbit"}) {
    const auto refused = parse_link(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  }
}

}  // namespace
}  // namespace omni
