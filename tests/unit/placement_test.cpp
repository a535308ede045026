// These tests check where a ready task goes when there are several kinds of workers.
#include "scheduling/policy/placement.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace omni {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr double kSoon = 0, kLate = 1e12;  // us: no budget for trials, and any

TEST(Placement, takes_the_earliest_finish) {
  Placement placement;
  const Candidate cores{.wait = 0, .transfer = 0, .length = 100};
  EXPECT_EQ(placement.choose(std::array{cores, Candidate{.length = 10}}, kSoon), 1u);
  EXPECT_EQ(placement.choose(std::array{cores, Candidate{.wait = 95, .length = 10}}, kSoon), 0u);
  EXPECT_EQ(placement.choose(std::array{cores, Candidate{.transfer = 95, .length = 10}}, kSoon),
            0u);
}

TEST(Placement, who_would_fetch_much_more_than_it_spares_is_passed_over) {
  Placement placement;
  const Candidate gpu{.wait = 1000, .length = 1};
  EXPECT_EQ(placement.choose(std::array{Candidate{.transfer = 31, .length = 1}, gpu}, kSoon), 0u);
  EXPECT_EQ(placement.choose(std::array{Candidate{.transfer = 33, .length = 1}, gpu}, kSoon), 1u);
  const Candidate far_gpu{.wait = 1000, .transfer = 100, .length = 1};
  EXPECT_EQ(placement.choose(std::array{Candidate{.transfer = 131, .length = 1}, far_gpu}, kSoon),
            0u)
      << "both would fetch most of it";
}

TEST(Placement, who_is_spared_a_task_does_not_wait_longer_for_what_it_updates) {
  Placement placement;
  const auto chosen = [&](const Candidate& core, const Candidate& gpu) {
    return placement.choose(std::array{core, gpu}, kSoon);
  };
  const Candidate gpu{.wait = 1000, .length = 8};
  EXPECT_EQ(chosen({.back = 7, .length = 1}, gpu), 0u);
  EXPECT_EQ(chosen({.back = 9, .length = 1}, gpu), 1u);
  EXPECT_EQ(chosen({.back = 9, .length = 1}, {.wait = 1000, .back = 9, .length = 8}), 0u)
      << "somebody will wait for it anyhow";
  const Candidate busy{.wait = 1000, .ready = 30, .length = 8};
  EXPECT_EQ(chosen({.transfer = 10, .back = 9, .length = 11}, busy), 0u) << "back in time";
  EXPECT_EQ(chosen({.transfer = 10, .back = 9, .length = 12}, busy), 1u);
  EXPECT_EQ(chosen({.ready = 1, .transfer = 10, .back = 9, .length = 11}, busy), 1u);
}

TEST(Placement, of_two_who_are_in_the_way_the_first_to_finish_is_taken) {
  Placement placement;
  const Candidate core{.back = 900, .length = 1}, gpu{.wait = 10, .transfer = 400, .length = 8};
  EXPECT_EQ(placement.choose(std::array{core, gpu}, kSoon), 0u);
}

TEST(Placement, who_is_in_the_way_is_not_looked_at_again) {
  Placement placement;
  const std::array both{Candidate{.length = 8}, Candidate{.back = 9, .length = 1, .guess = 1}};
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(placement.choose(both, kLate), 0u);
}

TEST(Placement, without_models_the_guess_decides) {
  Placement placement;
  EXPECT_EQ(placement.choose(std::array{Candidate{.length = kUnknown, .guess = 50},
                                        Candidate{.length = kUnknown, .guess = 1}},
                             kSoon),
            1u);
}

TEST(Placement, what_is_unknown_is_tried_when_it_can_be_afforded) {
  Placement placement;
  const std::array both{Candidate{.length = kUnknown, .guess = 1000},
                        Candidate{.wait = 5, .length = 1}};
  EXPECT_EQ(placement.choose(both, kSoon), 1u);
  EXPECT_EQ(placement.choose(both, 100'000), 0u);
  EXPECT_EQ(placement.choose(both, 150'000), 1u) << "1 % of the time is spent";
  EXPECT_EQ(placement.choose(both, 200'000), 0u);
}

TEST(Placement, nobody_is_tried_who_has_work) {
  Placement placement;
  EXPECT_EQ(placement.choose(std::array{Candidate{.wait = 1, .length = kUnknown, .guess = 1},
                                        Candidate{.length = 500}},
                             kLate),
            1u);
}

int looks(const Candidate& slow, int choices) {
  Placement placement;
  int looks = 0;
  double now = 0;
  for (int i = 0; i < choices; ++i)
    looks += placement.choose(std::array{Candidate{.length = 1000}, slow}, now += 1000) == 1;
  return looks;
}

TEST(Placement, who_seems_slow_is_looked_at_again_within_the_budget) {
  EXPECT_GE(looks({.length = 85'000, .guess = 50'000}, 100'000), 10);
  EXPECT_LE(looks({.length = 85'000, .guess = 50'000}, 100'000) * 85'000, 0.01 * 1000 * 100'000);
}

// A GPU whose model learned 85 ms for a task of 0.2 ms must soon get such a task again.
TEST(Placement, who_seems_implausibly_slow_is_looked_at_soon) {
  EXPECT_GE(looks({.length = 85'000, .guess = 200}, 2000), 10);
}

}  // namespace
}  // namespace omni
