// These tests compare each row of the forecast for several nodes with results worked out by hand.
#include "scheduling/forecast/node_forecast.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "layers/slice_choice.hpp"

namespace omni {
namespace {

const NodeCosts kNodeCosts{.net = {.images = 64,
                                   .merged_share = 1 / 9.,
                                   .replicated = {std::vector<double>(8, 48)},
                                   .merged = {{64.}},
                                   .activations = 50},
                           .seconds = 9};
constexpr Machine::Link kNodeLink{.seconds = 0.5, .bytes_per_second = 100};

NodeForecast row_of(const NodeCosts& costs, int nodes, int groups, std::string_view strategy,
                    bool server = false) {
  for (const NodeForecast& each :
       forecast_nodes(costs, kNodeLink, std::vector{NodeCount{nodes, server}}))
    if (each.groups == groups && each.strategies.find(strategy) != std::string::npos) return each;
  ADD_FAILURE() << "no row of " << strategy << " with " << groups << " groups";
  return {};
}

TEST(NodeForecast, OneNodeHasNoNetwork) {
  const NodeForecast row = row_of(kNodeCosts, 1, 1, "sync");
  EXPECT_EQ(row.network, 0);
  EXPECT_NEAR(row.update.seconds, 9, 1e-6);
}

TEST(NodeForecast, NodesOfAGroupShareTheMiniBatch) {
  const NodeForecast two = row_of(kNodeCosts, 2, 1, "sync");
  EXPECT_NEAR(two.compute, 4.5, 1e-6);
  // One node owns the part of 64 bytes and three parts of 48 bytes. The other node owns five parts,
  // 240 bytes.
  EXPECT_DOUBLE_EQ(two.network, 2 * (0.5 + 240.0 / 100));
  EXPECT_EQ(two.merged, 0) << "one group merges nothing";
  const NodeForecast four = row_of(kNodeCosts, 4, 2, "async");
  EXPECT_NEAR(four.compute, 4, 1e-6);
  EXPECT_NEAR(four.merged, 1 + 2 * (0.5 + 0.5), 1e-6);
}

// The fast node computes two thirds of the mini-batch. With equal shares it waits for the slow one.
TEST(NodeForecast, UnlikeNodesShareByTheirSpeeds) {
  NodeCosts costs = kNodeCosts;
  costs.net.replicated = {};
  costs.net.merged = {};
  costs.net.images = 66;
  EXPECT_FALSE(row_of(costs, 2, 1, "sync").with_equal_shares);
  costs.speeds = {1, 0.5};
  const NodeForecast row = row_of(costs, 2, 1, "sync");
  EXPECT_NEAR(row.compute, 6, 1e-6);
  ASSERT_TRUE(row.with_equal_shares);
  EXPECT_NEAR(*row.with_equal_shares - row.update.seconds, 9 - 6, 1e-6);
  EXPECT_FALSE(row_of(costs, 2, 2, "local").with_equal_shares);
  const auto speeds = parse_speeds("1:1:0.5");
  ASSERT_TRUE(speeds);
  EXPECT_EQ(*speeds, (std::vector{1.0, 1.0, 0.5}));
  for (const char* text : {"", "1:", "0", "1:fast", "-1"}) EXPECT_FALSE(parse_speeds(text)) << text;
}

// Of each part, a message in bf16 has half of the bytes. Parts of 100 KiB are cut into pieces for
// two nodes; 1 % of the values take 2 % of the bytes.
TEST(NodeForecast, SmallerMessagesTakeLessTime) {
  NodeCosts costs = kNodeCosts;
  costs.net.send = {.kind = Coding::Kind::bf16};
  EXPECT_DOUBLE_EQ(row_of(costs, 2, 1, "sync").network, 2 * (0.5 + 120.0 / 100));
  costs.net.send = {.kind = Coding::Kind::top, .share = 0.01};
  EXPECT_DOUBLE_EQ(row_of(costs, 2, 1, "sync").network, 2 * (0.5 + 240.0 / 100))
      << "parts of 12 values travel whole";
  costs.net.replicated.parts.assign(8, 400'000);
  const double seconds = 2 * (0.5 + 4 * 8000.0 / 100);
  EXPECT_NEAR(row_of(costs, 2, 1, "sync").network, seconds, 0.01 * seconds);
  const double updates = row_of(costs, 2, 2, "local").update.seconds;
  costs.net.send = {};
  EXPECT_GT(row_of(costs, 2, 2, "local").update.seconds, 5 * updates);
}

TEST(NodeForecast, EveryStrategyHasARow) {
  const auto rows = forecast_nodes(kNodeCosts, kNodeLink, std::vector{NodeCount{4}});
  std::vector<std::string> found;
  for (const NodeForecast& row : rows)
    if (row.groups == 4) found.push_back(row.strategies);
  EXPECT_THAT(found,
              testing::ElementsAre("adaptive, hogbatch", "async", "elastic", "local", "sma"));
  const NodeForecast& best = fastest(rows);
  for (const NodeForecast& row : rows) EXPECT_GE(row.update.seconds, best.update.seconds);
}

TEST(NodeForecast, HasEveryDividingNumberOfGroups) {
  const auto groups = [](int nodes) {
    std::vector<int> found;
    for (const NodeForecast& each :
         forecast_nodes(kNodeCosts, kNodeLink, std::vector{NodeCount{nodes}}))
      if (each.strategies == "sync" || each.strategies == "async") found.push_back(each.groups);
    return found;
  };
  EXPECT_THAT(groups(1), testing::ElementsAre(1));
  EXPECT_THAT(groups(4), testing::ElementsAre(1, 2, 4));
  EXPECT_THAT(groups(6), testing::ElementsAre(1, 2, 6));
}

TEST(NodeForecast, AServerOfItsOwnRelievesTheFirstNode) {
  const NodeForecast with = row_of(kNodeCosts, 8, 8, "async", true),
                     without = row_of(kNodeCosts, 8, 8, "async");
  EXPECT_EQ(with.nodes.all(), 9);
  EXPECT_LE(with.update.seconds, without.update.seconds);
  EXPECT_STREQ(row_of(kNodeCosts, 16, 16, "async", true).update.busiest, "merged layers");
}

TEST(NodeForecast, MessagesTakeTimeOfTheCores) {
  Machine::Link link = kNodeLink;
  link.work_per_message = 2;
  link.work_per_byte = 0.01;
  NodeCosts costs = kNodeCosts;
  costs.cores = 2;
  const auto compute = [&](int nodes) {
    return forecast_nodes(costs, link, std::vector{NodeCount{nodes}}).front().compute;
  };
  EXPECT_NEAR(compute(1), 9, 1e-6);
  EXPECT_NEAR(compute(2), 4.5 + (2 * 9 + 0.01 * 2 * 240) / 2, 1e-6);
  // Each of four ranks sends four slices to three others, of a layer's inputs, its outputs and the
  // gradients of both.
  costs = {.net = {.images = 100, .replicated = {.connected = {{400, 512}}}},
           .seconds = 1e-9,
           .cores = 4};
  link.work_per_byte = 0;
  EXPECT_NEAR(compute(4), 2 * 48.0 / 4, 1e-6);
}

// Up to a few nodes, each node sends a layer's statistics to all others, in both passes. Eight
// nodes exchange them in rows of two, then in columns.
TEST(NodeForecast, NodesOfAGroupWaitForStatistics) {
  NodeCosts costs{.net = {.images = 64, .statistics = {100, 200}}, .seconds = 1};
  const auto first = [&](const Machine::Link& link, int nodes) {
    return forecast_nodes(costs, link, std::vector{NodeCount{nodes}}).front();
  };
  EXPECT_DOUBLE_EQ(first(kNodeLink, 1).statistics, 0);
  EXPECT_DOUBLE_EQ(first(kNodeLink, 2).statistics, 2 * (0.5 + 1 + 0.5 + 2));
  EXPECT_NEAR(first(kNodeLink, 2).update.seconds, 0.5 + 2 * (0.5 + 1 + 0.5 + 2), 1e-6);
  EXPECT_DOUBLE_EQ(row_of(costs, 2, 2, "async").statistics, 0)
      << "two groups have a mini-batch each";
  EXPECT_DOUBLE_EQ(first(kNodeLink, 8).statistics, 2 * (0.5 + 1 + 0.5 + 2 + 0.5 + 3 + 0.5 + 6));
  Machine::Link link = kNodeLink;
  link.work_per_message = 1;
  EXPECT_DOUBLE_EQ(first(link, 4).statistics, 2 * (0.5 + 3 + 2 + 0.5 + 6 + 2));
  const auto messages = [&](int nodes) {
    return first(link, nodes).compute - first(kNodeLink, nodes).compute;
  };
  EXPECT_NEAR(messages(3), 2 * 2 * (2 + 2), 1e-6) << "two layers, two passes";
  EXPECT_NEAR(messages(8), 2 * 2 * (2 * 1 + 2 * 3), 1e-6);
  costs.net.passes = 3;
  EXPECT_NEAR(messages(3), 3 * 2 * 2 * (2 + 2), 1e-6);
  EXPECT_DOUBLE_EQ(first(kNodeLink, 2).statistics, 3 * 2 * (0.5 + 1 + 0.5 + 2));
}

// Scales are complete on each rank, so only groups exchange them, not the ranks of one group.
TEST(NodeForecast, ScalesTravelBetweenGroups) {
  const NodeCosts costs{.net = {.images = 64, .scales = {100}}, .seconds = 8};
  EXPECT_EQ(row_of(costs, 2, 1, "sync").network, 2 * 0.5);
  EXPECT_EQ(row_of(costs, 2, 2, "async").network, 2 * (0.5 + 1));
}

// The owner of the large part receives it from all other nodes, and is the busiest node.
TEST(NodeForecast, TheBusiestNodeCounts) {
  const NodeCosts uneven{.net = {.images = 64, .replicated = {{100, 300}}}, .seconds = 8};
  EXPECT_DOUBLE_EQ(row_of(uneven, 2, 1, "sync").network, 2 * (0.5 + 300.0 / 100));
  EXPECT_DOUBLE_EQ(row_of(uneven, 4, 1, "sync").network, 2 * (0.5 + 900.0 / 100));
}

// Each node of a group sums one piece of the large weights, so no node sends or receives all of the
// weights.
TEST(NodeForecast, NodesOfAGroupCutLargeWeights) {
  constexpr double kBytes = 4 * 2048.0 * 512;
  const auto network = [](NetCosts::Parameters parameters, int nodes) {
    const NodeCosts costs{.net = {.images = 64, .replicated = std::move(parameters)}, .seconds = 8};
    return row_of(costs, nodes, 2, "async").network;
  };
  EXPECT_DOUBLE_EQ(network({.connected = {{2048, 512}}}, 4), 2 * (0.5 + kBytes * 3 / 4 / 100));
  EXPECT_DOUBLE_EQ(network({.parts = {kBytes}}, 4), 2 * (0.5 + kBytes * 3 / 4 / 100));
  EXPECT_DOUBLE_EQ(network({.parts = {kBytes, 40}}, 16), 2 * (0.5 + (kBytes / 16 + 40) * 15 / 100));
}

// No rank owns much more than the others, and pieces stay large. The more ranks send a piece to its
// owner, the smaller it may be.
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

// A layer's inputs go to all nodes. Its outputs go to the nodes that have the images. The gradients
// of both go back.
TEST(NodeForecast, NodesOfOneGroupDivideNeurons) {
  NodeCosts costs{.net = {.images = 100, .merged = {.connected = {{400, 512}}}}, .seconds = 8};
  const NodeForecast row = row_of(costs, 4, 1, "sync");
  const double inputs = 4.0 * 75 * 400, outputs = 4.0 * 75 * 128;
  EXPECT_NEAR(row.activations, 2 * (0.5 + inputs / 100) + 2 * (0.5 + outputs / 100), 1e-6);
  EXPECT_DOUBLE_EQ(row.network, 2 * 0.5);
  EXPECT_NEAR(row.update.seconds, 2 + row.activations, 0.01);
  costs.net.images = 400;  // 211,200 values to send instead of 204,800 weights
  EXPECT_EQ(row_of(costs, 4, 1, "sync").activations, 0);
}

TEST(NodeCount, IsANumberAndPerhapsAServer) {
  const auto eight = parse_node_count("8"), more = parse_node_count("32+1");
  ASSERT_TRUE(eight && more);
  EXPECT_EQ(eight->all(), 8);
  EXPECT_EQ(more->computing, 32);
  EXPECT_EQ(more->all(), 33);
  for (const char* wrong : {"", "0", "-1", "+1", "8+2", "8+", "4097", "1.5", "x"}) {
    const auto refused = parse_node_count(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  }
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
