// Nobody lies where somebody else still is, and little memory is needed beyond what is used at
// once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "layers/memory_plan.hpp"
#include "runtime/rng.hpp"

namespace omni {
namespace {

using Stays = std::vector<Tenant::Stay>;

bool meet(const Stays& a, const Stays& b) {
  return std::ranges::any_of(a, [&](const Tenant::Stay& one) {
    return std::ranges::any_of(b, [&](const Tenant::Stay& other) {
      return one.first <= other.last && other.first <= one.last;
    });
  });
}

// What the plan takes, if it is one.
std::size_t planned(const std::vector<Tenant>& tenants, std::size_t most_times = 1000) {
  const std::vector<std::size_t> home = plan_memory(tenants, most_times);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    const Tenant& owner = tenants[home[i]];
    EXPECT_EQ(home[home[i]], home[i]) << i;
    EXPECT_EQ(owner.slice, tenants[i].slice) << i;
    EXPECT_GE(owner.bytes, tenants[i].bytes) << i;
    EXPECT_LE(owner.bytes, most_times * tenants[i].bytes) << i;
    if (home[i] == i) bytes += tenants[i].bytes;
    for (std::size_t j = 0; j < i; ++j)
      if (home[i] == home[j]) {
        EXPECT_FALSE(meet(tenants[i].stays, tenants[j].stays)) << i << " and " << j;
      }
  }
  return bytes;
}

// No plan takes less.
std::size_t used_at_once(const std::vector<Tenant>& tenants) {
  std::map<std::size_t, std::int64_t> change;  // by task
  for (const Tenant& tenant : tenants)
    for (const Tenant::Stay& stay : tenant.stays) {
      change[stay.first] += static_cast<std::int64_t>(tenant.bytes);
      change[stay.last + 1] -= static_cast<std::int64_t>(tenant.bytes);
    }
  std::int64_t now = 0, most = 0;
  for (const auto& [task, bytes] : change) most = std::max(most, now += bytes);
  return static_cast<std::size_t>(most);
}

std::vector<Tenant> chain(std::size_t length) {
  std::vector<Tenant> tenants;
  for (std::size_t i = 0; i < length; ++i)
    tenants.push_back({.bytes = 100, .stays = {{.first = i, .last = i + 1}}});
  return tenants;
}

TEST(MemoryPlan, AChainNeedsTwo) {
  EXPECT_EQ(planned(chain(20)), 200u);
  EXPECT_EQ(planned(chain(1)), 100u);
  EXPECT_EQ(planned({}), 0u);
}

TEST(MemoryPlan, SlicesDoNotShare) {
  std::vector<Tenant> both = chain(20);
  for (Tenant tenant : chain(20)) {
    tenant.slice = 1;
    both.push_back(tenant);
  }
  EXPECT_EQ(planned(both), 400u);
}

// What a shortcut reads stays while the layers beside it come and go.
TEST(MemoryPlan, AShortcutNeedsAThird) {
  std::vector<Tenant> tenants = chain(20);
  for (std::size_t i = 0; i < tenants.size(); i += 4) tenants[i].stays.front().last += 3;
  EXPECT_EQ(planned(tenants), 300u);
  EXPECT_EQ(used_at_once(tenants), 300u);
}

// Forward values are needed until their layer's turn comes in backward; they get smaller.
TEST(MemoryPlan, GradientsLieWhereValuesWere) {
  std::vector<Tenant> tenants;
  constexpr std::size_t kLayers = 16;
  std::size_t values = 0;
  for (std::size_t i = 0; i < kLayers; ++i) {
    const std::size_t bytes = 1600 - 100 * i, turn = 2 * kLayers - i;
    values += bytes;
    tenants.push_back({.bytes = bytes, .stays = {{.first = i, .last = turn}}});
    tenants.push_back({.bytes = bytes, .stays = {{.first = turn - 1, .last = turn}}});
  }
  EXPECT_LE(planned(tenants), values + values / 4);
}

TEST(MemoryPlan, BetweenTwoStaysSomebodyElseMayBeThere) {
  std::vector<Tenant> tenants{{.bytes = 100, .stays = {{0, 2}, {7, 9}}},
                              {.bytes = 80, .stays = {{4, 5}}}};
  EXPECT_EQ(planned(tenants), 100u);
  tenants[1].stays.front().last = 7;
  EXPECT_EQ(planned(tenants), 180u);
}

TEST(MemoryPlan, TheMemoryThatIsFreeTheLongestIsTaken) {
  const std::vector<Tenant> tenants{{.bytes = 100, .stays = {{0, 6}}},
                                    {.bytes = 99, .stays = {{0, 3}}},
                                    {.bytes = 98, .stays = {{0, 7}}},
                                    {.bytes = 97, .stays = {{8, 9}}}};
  EXPECT_EQ(plan_memory(tenants, 2)[3], 1u);
}

TEST(MemoryPlan, TheSmallDoNotMoveTheLarge) {
  const std::vector<Tenant> tenants{{.bytes = 401, .stays = {{0, 1}}},
                                    {.bytes = 100, .stays = {{4, 5}}}};
  EXPECT_EQ(planned(tenants, 4), 501u);
  EXPECT_EQ(planned(tenants, 5), 401u);
}

TEST(MemoryPlan, RandomOnesOfOneSizeNeedWhatIsUsedAtOnce) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Draws draws(Philox(seed, RandomStream::synthetic), 0);
    std::vector<Tenant> tenants(60);
    for (Tenant& tenant : tenants) {
      const std::size_t first = draws.below(200);
      tenant = {.bytes = 8, .stays = {{first, first + draws.below(40)}}};
    }
    EXPECT_EQ(planned(tenants), used_at_once(tenants)) << seed;
  }
}

TEST(MemoryPlan, RandomOnesNeedLittleMore) {
  double sum = 0;
  constexpr int kRuns = 50;
  for (int run = 0; run < kRuns; ++run) {
    Draws draws(Philox(static_cast<std::uint64_t>(run), RandomStream::synthetic), 0);
    std::vector<Tenant> tenants(60);
    for (Tenant& tenant : tenants) {
      const std::size_t first = draws.below(200);
      tenant = {.bytes = 1 + draws.below(1000), .stays = {{first, first + draws.below(40)}}};
    }
    const auto ratio =
        static_cast<double>(planned(tenants)) / static_cast<double>(used_at_once(tenants));
    EXPECT_GE(ratio, 1);
    sum += ratio;
  }
  EXPECT_LT(sum / kRuns, 1.25);
}

}  // namespace
}  // namespace omni
