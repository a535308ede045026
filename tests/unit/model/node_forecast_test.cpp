// Iterations on several nodes, by hand.
#include "scheduling/model/node_forecast.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace omni {
namespace {

const NodeCosts kNodeCosts{
    .compute = 8, .merged = 1, .replicated = {std::vector<double>(8, 50)}, .activations = 50};
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
  EXPECT_DOUBLE_EQ(two.compute, 4.5);
  EXPECT_DOUBLE_EQ(two.network, 2 * (0.5 + 200.0 / 100));
  EXPECT_DOUBLE_EQ(two.merged, 0) << "one group merges nothing";
  EXPECT_DOUBLE_EQ(two.seconds(), 4.5 / 3 + 5);
  const NodeForecast four = row(4, 2);
  EXPECT_DOUBLE_EQ(four.compute, 4);
  EXPECT_DOUBLE_EQ(four.merged, 1 + 2 * (0.5 + 0.5));
}

TEST(NodeForecast, NothingIsSentInTheForwardPass) {
  EXPECT_DOUBLE_EQ((NodeForecast{.compute = 6, .network = 3}).seconds(), 6);
  EXPECT_DOUBLE_EQ((NodeForecast{.compute = 6, .network = 5}).seconds(), 7);
  EXPECT_DOUBLE_EQ((NodeForecast{.compute = 6, .network = 60}).seconds(), 62);
}

// The owner of the large part receives it from all others, and nobody else has as much to do.
TEST(NodeForecast, TheBusiestNodeCounts) {
  NodeCosts uneven = kNodeCosts;
  uneven.replicated.parts = {100, 300};
  const auto rows = forecast_nodes(uneven, kNodeLink, std::vector{2, 4});
  EXPECT_DOUBLE_EQ(rows[0].network, 2 * (0.5 + 300.0 / 100));
  EXPECT_DOUBLE_EQ(rows[2].network, 2 * (0.5 + 900.0 / 100));
}

// Each node of a group sums blocks of the weights: no node sends or receives all of them.
TEST(NodeForecast, NodesOfAGroupCutLargeWeights) {
  constexpr double kBytes = 4 * 2048.0 * 512;
  NodeCosts costs{.compute = 8, .replicated = {.connected = {{2048, 512}}}};
  EXPECT_DOUBLE_EQ(forecast_nodes(costs, kNodeLink, std::vector{4})[1].network,
                   2 * (0.5 + kBytes * 3 / 4 / 100));
  costs.replicated.connected = {{2047, 512}};
  EXPECT_DOUBLE_EQ(forecast_nodes(costs, kNodeLink, std::vector{4})[1].network,
                   2 * (0.5 + 4 * 2047.0 * 512 * 3 / 100))
      << "others have one owner";
}

// Inputs go to all nodes, and outputs to those that have the images; their gradients go back.
TEST(NodeForecast, NodesOfOneGroupDivideNeurons) {
  NodeCosts costs{.compute = 8, .of_merged = {.connected = {{400, 512}}}, .images = 100};
  const NodeForecast row = forecast_nodes(costs, kNodeLink, std::vector{4}).front();
  const double inputs = 4.0 * 75 * 400, outputs = 4.0 * 75 * 128;
  EXPECT_DOUBLE_EQ(row.activations, 2 * (0.5 + inputs / 100) + 2 * (0.5 + outputs / 100));
  EXPECT_DOUBLE_EQ(row.network, 2 * 0.5);
  EXPECT_DOUBLE_EQ(row.seconds(), 2 + row.activations);
  costs.images = 400;  // 211,200 values to send instead of 204,800 weights
  EXPECT_EQ(forecast_nodes(costs, kNodeLink, std::vector{4}).front().activations, 0);
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
