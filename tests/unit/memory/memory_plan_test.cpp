// These tests check the memory plan. Two buffers never share memory at the same time, and little
// more memory is planned than is used at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "layers/memory_plan.hpp"
#include "runtime/rng.hpp"

namespace omni {
namespace {

using Stays = std::vector<PlannedBuffer::Lifetime>;

bool meet(const Stays& a, const Stays& b) {
  return std::ranges::any_of(a, [&](const PlannedBuffer::Lifetime& one) {
    return std::ranges::any_of(b, [&](const PlannedBuffer::Lifetime& other) {
      return one.first <= other.last && other.first <= one.last;
    });
  });
}

// Checks the plan's rules, and returns the bytes that the plan takes.
std::size_t planned(const std::vector<PlannedBuffer>& buffers, std::size_t most_times = 1000) {
  const std::vector<std::size_t> home = plan_memory(buffers, most_times);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const PlannedBuffer& owner = buffers[home[i]];
    EXPECT_EQ(home[home[i]], home[i]) << i;
    EXPECT_EQ(owner.slice, buffers[i].slice) << i;
    EXPECT_GE(owner.bytes, buffers[i].bytes) << i;
    EXPECT_LE(owner.bytes, most_times * buffers[i].bytes) << i;
    if (home[i] == i) bytes += buffers[i].bytes;
    for (std::size_t j = 0; j < i; ++j)
      if (home[i] == home[j]) {
        EXPECT_FALSE(meet(buffers[i].lifetimes, buffers[j].lifetimes)) << i << " and " << j;
      }
  }
  return bytes;
}

// Returns the most bytes that are in use during one task. Every plan takes at least as many.
std::size_t used_at_once(const std::vector<PlannedBuffer>& buffers) {
  std::map<std::size_t, std::int64_t> change;  // by task
  for (const PlannedBuffer& buffer : buffers)
    for (const PlannedBuffer::Lifetime& stay : buffer.lifetimes) {
      change[stay.first] += static_cast<std::int64_t>(buffer.bytes);
      change[stay.last + 1] -= static_cast<std::int64_t>(buffer.bytes);
    }
  std::int64_t now = 0, most = 0;
  for (const auto& [task, bytes] : change) most = std::max(most, now += bytes);
  return static_cast<std::size_t>(most);
}

std::vector<PlannedBuffer> chain(std::size_t length) {
  std::vector<PlannedBuffer> buffers;
  for (std::size_t i = 0; i < length; ++i)
    buffers.push_back({.bytes = 100, .lifetimes = {{.first = i, .last = i + 1}}});
  return buffers;
}

TEST(MemoryPlan, S14_a_chain_needs_two) {
  EXPECT_EQ(planned(chain(20)), 200u);
  EXPECT_EQ(planned(chain(1)), 100u);
  EXPECT_EQ(planned({}), 0u);
}

TEST(MemoryPlan, SlicesDoNotShare) {
  std::vector<PlannedBuffer> both = chain(20);
  for (PlannedBuffer buffer : chain(20)) {
    buffer.slice = 1;
    both.push_back(buffer);
  }
  EXPECT_EQ(planned(both), 400u);
}

// The tensor that a shortcut reads stays in memory while the layers in between are computed.
TEST(MemoryPlan, AShortcutNeedsAThird) {
  std::vector<PlannedBuffer> buffers = chain(20);
  for (std::size_t i = 0; i < buffers.size(); i += 4) buffers[i].lifetimes.front().last += 3;
  EXPECT_EQ(planned(buffers), 300u);
  EXPECT_EQ(used_at_once(buffers), 300u);
}

// A layer's forward values are needed until its backward task. They get smaller from layer to
// layer.
TEST(MemoryPlan, GradientsLieWhereValuesWere) {
  std::vector<PlannedBuffer> buffers;
  constexpr std::size_t kLayers = 16;
  std::size_t values = 0;
  for (std::size_t i = 0; i < kLayers; ++i) {
    const std::size_t bytes = 1600 - 100 * i, turn = 2 * kLayers - i;
    values += bytes;
    buffers.push_back({.bytes = bytes, .lifetimes = {{.first = i, .last = turn}}});
    buffers.push_back({.bytes = bytes, .lifetimes = {{.first = turn - 1, .last = turn}}});
  }
  EXPECT_LE(planned(buffers), values + values / 4);
}

TEST(MemoryPlan, BetweenTwoStaysSomebodyElseMayBeThere) {
  std::vector<PlannedBuffer> buffers{{.bytes = 100, .lifetimes = {{0, 2}, {7, 9}}},
                                     {.bytes = 80, .lifetimes = {{4, 5}}}};
  EXPECT_EQ(planned(buffers), 100u);
  buffers[1].lifetimes.front().last = 7;
  EXPECT_EQ(planned(buffers), 180u);
}

TEST(MemoryPlan, TheMemoryThatIsFreeTheLongestIsTaken) {
  const std::vector<PlannedBuffer> buffers{{.bytes = 100, .lifetimes = {{0, 6}}},
                                           {.bytes = 99, .lifetimes = {{0, 3}}},
                                           {.bytes = 98, .lifetimes = {{0, 7}}},
                                           {.bytes = 97, .lifetimes = {{8, 9}}}};
  EXPECT_EQ(plan_memory(buffers, 2)[3], 1u);
}

TEST(MemoryPlan, TheSmallDoNotMoveTheLarge) {
  const std::vector<PlannedBuffer> buffers{{.bytes = 401, .lifetimes = {{0, 1}}},
                                           {.bytes = 100, .lifetimes = {{4, 5}}}};
  EXPECT_EQ(planned(buffers, 4), 501u);
  EXPECT_EQ(planned(buffers, 5), 401u);
}

TEST(MemoryPlan, RandomOnesOfOneSizeNeedWhatIsUsedAtOnce) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Draws draws(Philox(seed, RandomStream::synthetic), 0);
    std::vector<PlannedBuffer> buffers(60);
    for (PlannedBuffer& buffer : buffers) {
      const std::size_t first = draws.below(200);
      buffer = {.bytes = 8, .lifetimes = {{first, first + draws.below(40)}}};
    }
    EXPECT_EQ(planned(buffers), used_at_once(buffers)) << seed;
  }
}

TEST(MemoryPlan, RandomOnesNeedLittleMore) {
  double sum = 0;
  constexpr int kRuns = 50;
  for (int run = 0; run < kRuns; ++run) {
    Draws draws(Philox(static_cast<std::uint64_t>(run), RandomStream::synthetic), 0);
    std::vector<PlannedBuffer> buffers(60);
    for (PlannedBuffer& buffer : buffers) {
      const std::size_t first = draws.below(200);
      buffer = {.bytes = 1 + draws.below(1000), .lifetimes = {{first, first + draws.below(40)}}};
    }
    const auto ratio =
        static_cast<double>(planned(buffers)) / static_cast<double>(used_at_once(buffers));
    EXPECT_GE(ratio, 1);
    sum += ratio;
  }
  EXPECT_LT(sum / kRuns, 1.25);
}

}  // namespace
}  // namespace omni
