// Iterations on several nodes, by hand.
#include "scheduling/model/node_forecast.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "layers/slice_choice.hpp"

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

TEST(NodeForecast, MessagesTakeTimeOfTheCores) {
  Machine::Link link = kNodeLink;
  link.work_per_message = 2;
  link.work_per_byte = 0.01;
  NodeCosts costs = kNodeCosts;
  costs.cores = 2;
  const auto rows = forecast_nodes(costs, link, std::vector{1, 2});
  EXPECT_DOUBLE_EQ(rows[0].compute, 9);
  EXPECT_DOUBLE_EQ(rows[1].compute, 4.5 + (2 * 8 + 0.01 * 400) / 2);
  // Each of four ranks sends four slices of inputs, outputs and their gradients to three others.
  costs = {.of_merged = {.connected = {{400, 512}}}, .images = 100, .cores = 4};
  link.work_per_byte = 0;
  EXPECT_DOUBLE_EQ(forecast_nodes(costs, link, std::vector{4}).front().compute, 2 * 48.0 / 4);
}

// Each of few nodes sends a layer's statistics to all others, forward and backward; eight do it in
// rows of two, and then in columns.
TEST(NodeForecast, NodesOfAGroupWaitForStatistics) {
  NodeCosts costs{.statistics = {100, 200}};
  const auto statistics = [&](const Machine::Link& link, int nodes, std::size_t row) {
    return forecast_nodes(costs, link, std::vector{nodes})[row].statistics;
  };
  EXPECT_DOUBLE_EQ(statistics(kNodeLink, 1, 0), 0);
  EXPECT_DOUBLE_EQ(statistics(kNodeLink, 2, 0), 2 * (0.5 + 1 + 0.5 + 2));
  EXPECT_DOUBLE_EQ(statistics(kNodeLink, 2, 1), 0) << "two groups have a mini-batch each";
  EXPECT_DOUBLE_EQ(statistics(kNodeLink, 8, 0), 2 * (0.5 + 1 + 0.5 + 2 + 0.5 + 3 + 0.5 + 6));
  EXPECT_DOUBLE_EQ(statistics(kNodeLink, 8, 1), 2 * (0.5 + 3 + 0.5 + 6));
  Machine::Link link = kNodeLink;
  link.work_per_message = 1;
  EXPECT_DOUBLE_EQ(statistics(link, 4, 0), 2 * (0.5 + 3 + 2 + 0.5 + 6 + 2));
  const auto messages = [&](int nodes) {
    return forecast_nodes(costs, link, std::vector{nodes}).front().compute;
  };
  EXPECT_DOUBLE_EQ(messages(3), 2 * 2 * (2 + 2)) << "two layers, two passes";
  EXPECT_DOUBLE_EQ(messages(8), 2 * 2 * (2 * 1 + 2 * 3));
  costs.passes = 3;
  EXPECT_DOUBLE_EQ(messages(3), 3 * 2 * 2 * (2 + 2));
  EXPECT_DOUBLE_EQ(statistics(kNodeLink, 2, 0), 3 * 2 * (0.5 + 1 + 0.5 + 2));
  costs = {.compute = 8, .scales = {100}};
  EXPECT_EQ(forecast_nodes(costs, kNodeLink, std::vector{2})[0].network, 2 * 0.5);
  EXPECT_EQ(forecast_nodes(costs, kNodeLink, std::vector{2})[1].network, 2 * (0.5 + 1));
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

// Each node of a group sums pieces of the weights: no node sends or receives all of them.
TEST(NodeForecast, NodesOfAGroupCutLargeWeights) {
  constexpr double kBytes = 4 * 2048.0 * 512;
  const auto network = [](NodeCosts::Parameters parameters, int nodes) {
    const NodeCosts costs{.compute = 8, .replicated = std::move(parameters)};
    return forecast_nodes(costs, kNodeLink, std::vector{nodes})[1].network;
  };
  EXPECT_DOUBLE_EQ(network({.connected = {{2048, 512}}}, 4), 2 * (0.5 + kBytes * 3 / 4 / 100));
  EXPECT_DOUBLE_EQ(network({.parts = {kBytes}}, 4), 2 * (0.5 + kBytes * 3 / 4 / 100));
  EXPECT_DOUBLE_EQ(network({.parts = {kBytes, 40}}, 16), 2 * (0.5 + (kBytes / 16 + 40) * 15 / 100));
}

// Whatever their sizes, nobody owns much more than others, and messages stay large: the less so,
// the more ranks send one to its owner.
TEST(PieceValues, SpreadParametersEvenly) {
  for (const int ranks : {2, 3, 8, 64, 500})
    for (const std::vector<std::size_t>& sizes : {std::vector<std::size_t>{35'000'001},
                                                  {35'000, 307'000, 885'000, 663'000, 442'000},
                                                  {1, 63, 64, 16'385, 90'000}}) {
      const double least = 40'000.0 / std::clamp(ranks, 4, 16);
      const std::size_t all = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
      std::vector<std::size_t> pieces, owned(static_cast<std::size_t>(ranks));
      for (const std::size_t size : sizes) {
        const std::size_t width = piece_values(size, all, ranks);
        EXPECT_EQ(width % 64, 0u);
        EXPECT_TRUE(static_cast<double>(width) >= least || width >= size)
            << size << " on " << ranks;
        for (std::size_t first = 0; first < size; first += width)
          pieces.push_back(std::min(width, size - first));
      }
      std::ranges::sort(pieces, std::ranges::greater());
      for (const std::size_t piece : pieces) *std::ranges::min_element(owned) += piece;
      const double share = static_cast<double>(all) / ranks;
      EXPECT_LE(static_cast<double>(std::ranges::max(owned)), std::max(1.5 * share, 4 * least))
          << ranks << " ranks, " << all;
    }
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
