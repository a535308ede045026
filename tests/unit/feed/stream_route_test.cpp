// These tests check the designs by which ranks share samples: which ranks prepare, which messages
// travel, and which design is fastest.
#include "runtime/data/feed/stream_route.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace omni {
namespace {

using Design = StreamRoute::Design;

// The preparing ranks prepare equal numbers of blocks. Each rank gets each block exactly once, from
// a rank that has it.
TEST(StreamRoutes, BringEachBlockToEachRankOnce) {
  for (const Design design : {Design::all, Design::single, Design::multi})
    for (int ranks = 1; ranks <= 6; ++ranks)
      for (int preparers = 1; preparers <= ranks; ++preparers) {
        if (design == Design::all && preparers != ranks) continue;
        const StreamRoute route{design, preparers, ranks};
        SCOPED_TRACE(route.text());
        std::vector<int> prepared(static_cast<std::size_t>(ranks));
        for (std::uint64_t block = 0; block < 60; ++block) {
          std::set<std::pair<int, int>> sent, received;
          for (int rank = 0; rank < ranks; ++rank) {
            const StreamRoute::Hop hop = route.hop(rank, block);
            if (hop.source == StreamRoute::kPrepares)
              ++prepared[static_cast<std::size_t>(rank)];
            else
              received.insert({hop.source, rank});
            for (const int to : hop.targets) EXPECT_TRUE(sent.insert({rank, to}).second);
          }
          EXPECT_EQ(sent, received);
          EXPECT_EQ(sent.size(), static_cast<std::size_t>(ranks) - 1);
        }
        for (int rank = 0; rank < ranks; ++rank)
          EXPECT_EQ(prepared[static_cast<std::size_t>(rank)],
                    rank < preparers ? 60 / preparers : 0);
      }
}

// In the design "single", one preparing rank, here rank 1, sends every block to the ranks that do
// not prepare.
TEST(StreamRoutes, OfASingleMergerPassOnEverything) {
  const StreamRoute route{Design::single, 2, 4};
  EXPECT_EQ(route.hop(0, 0).targets, (std::vector<int>{1}));
  EXPECT_EQ(route.hop(1, 0).source, 0);
  EXPECT_EQ(route.hop(1, 0).targets, (std::vector<int>{2, 3}));
  EXPECT_EQ(route.hop(3, 0).source, 1);
  EXPECT_EQ(route.hop(1, 1).targets, (std::vector<int>{0, 2, 3}));
}

// With design "all" and N ranks, each rank receives (N - 1) / N of a sample's bytes.
TEST(StreamRoutes, TakeTheTimeOfTheSlowestRank) {
  const std::array<PreparingSpeed, 4> speeds{{{1, 2}, {1, 2}, {1, 2}, {1, 2}}};
  const ranks::Link fast{0, 1e9, 0, 0}, slow{0, 1e5, 0, 0}, busy{0, 1e12, 0, 1e-6};
  constexpr std::size_t kBytes = 150'528;
  const auto seconds = [&](Design design, int preparers, const ranks::Link& link) {
    return seconds_per_sample({design, preparers, 4}, speeds, link, kBytes);
  };
  EXPECT_DOUBLE_EQ(seconds(Design::apart, 1, fast), 0.5);
  EXPECT_DOUBLE_EQ(seconds(Design::all, 4, fast), 0.125);
  EXPECT_DOUBLE_EQ(seconds(Design::multi, 2, fast), 0.25);
  EXPECT_DOUBLE_EQ(seconds(Design::all, 4, slow), kBytes / 1e5 * 0.75);
  EXPECT_DOUBLE_EQ(seconds(Design::multi, 1, slow), kBytes / 1e5 * 3);
  EXPECT_DOUBLE_EQ(seconds(Design::all, 4, busy), (0.25 + 1.5 * kBytes * 1e-6) / 2);
}

TEST(StreamRoutes, AreChosenByRatesAndLinks) {
  constexpr std::array kAll{Design::apart, Design::all, Design::multi, Design::single};
  const ranks::Link fast{0, 1e9, 0, 0}, slow{0, 1e5, 0, 0};
  const std::array<PreparingSpeed, 3> alike{{{0.01, 2}, {0.01, 2}, {0.01, 2}}},
      first_is_fast{{{0.01, 64}, {0.01, 1}, {0.01, 1}}};
  constexpr std::size_t kBytes = 150'528;
  EXPECT_EQ(fastest_route(kAll, 0, alike, fast, kBytes).design, Design::all);
  EXPECT_EQ(fastest_route(kAll, 0, alike, slow, kBytes).design, Design::apart);
  const StreamRoute one = fastest_route(kAll, 0, first_is_fast, fast, kBytes);
  EXPECT_EQ(one.design, Design::multi);
  EXPECT_EQ(one.preparers, 1);
  constexpr std::array kSingle{Design::single};
  EXPECT_EQ(fastest_route(kSingle, 2, alike, fast, kBytes).preparers, 2);
  EXPECT_EQ(fastest_route(kSingle, 0, alike, fast, kBytes).preparers, 3);
}

}  // namespace
}  // namespace omni
