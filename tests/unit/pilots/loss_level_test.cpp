// These tests check that losses alone, even noisy ones, tell whether a net is at chance, and
// whether its loss has risen.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "runtime/rng.hpp"
#include "scheduling/pilots/health/loss_level.hpp"

namespace omni {
namespace {

constexpr double kGuessing = 2.302585;

std::vector<double> noisy(std::size_t count, double noise,
                          const std::function<double(double)>& level) {
  Draws draws(Philox(7, RandomStream::init), 0);
  std::vector<double> losses;
  for (std::size_t i = 0; i < count; ++i)
    losses.push_back(level(static_cast<double>(i)) + noise * static_cast<double>(draws.normal()));
  return losses;
}

LossLevel after(const std::vector<double>& losses, std::optional<double> chance = kGuessing,
                std::size_t epoch = LossLevel::kBlock) {
  LossLevel level(chance, epoch);
  for (const double each : losses) level.note(each);
  return level;
}

TEST(LossLevel, tells_chance_from_what_is_surely_better) {
  for (const double noise : {0.0, 0.01, 0.1, 0.5}) {
    EXPECT_TRUE(at_chance(noisy(300, noise, [](double) { return kGuessing; }), kGuessing)) << noise;
    EXPECT_TRUE(at_chance(noisy(300, noise, [](double) { return 3.0; }), kGuessing)) << noise;
    EXPECT_FALSE(at_chance(noisy(300, noise, [](double) { return 0.9 * kGuessing; }), kGuessing))
        << noise;
  }
  EXPECT_TRUE(at_chance({}, kGuessing)) << "nothing is known";
}

TEST(LossLevel, counts_losses_at_chance) {
  for (const double noise : {0.0, 0.01, 0.1, 0.5})
    EXPECT_GE(after(noisy(2000, noise, [](double) { return kGuessing; })).at_chance(), 900u)
        << noise;
  EXPECT_GE(after(noisy(2000, 0.3, [](double) { return 2.9; })).at_chance(), 900u) << "above it";
}

TEST(LossLevel, does_not_count_what_learns) {
  const auto slow = [](double i) { return i < 200 ? kGuessing : kGuessing - 1e-3 * (i - 200); };
  EXPECT_EQ(after(noisy(1200, 0.1, slow)).at_chance(), 0u);
  EXPECT_EQ(after(noisy(3000, 0.1, [](double) { return 0.97 * kGuessing; })).at_chance(), 0u)
      << "little, but surely";
  const auto from_far = [](double i) { return 20 * std::exp(-i / 700); };
  EXPECT_LT(after(noisy(1400, 0.1, from_far)).at_chance(), 200u) << "still far above, but falling";
}

// With a small data set, an epoch and a training have few mini-batches.
TEST(LossLevel, judges_short_epochs_one_by_one) {
  for (const double noise : {0.01, 0.1, 0.5}) {
    const auto stays = noisy(160, noise, [](double) { return kGuessing; });
    EXPECT_GE(after(stays, kGuessing, 23).at_chance(), 115u) << noise;
    EXPECT_LT(after(stays).at_chance(), 100u);
    EXPECT_GE(after(stays, kGuessing, 1).at_chance(), 112u) << "in blocks of 16";
  }
  EXPECT_NEAR(
      after(noisy(160, 0.1, [](double) { return kGuessing; }), kGuessing, 23).mean_at_chance(),
      kGuessing, 0.05);
  const auto slow = [](double i) { return i < 60 ? kGuessing : kGuessing - 2e-3 * (i - 60); };
  EXPECT_EQ(after(noisy(200, 0.1, slow), kGuessing, 23).at_chance(), 0u);
}

TEST(LossLevel, counts_again_what_forgets) {
  const auto dies = [](double i) { return i < 1000 ? 2 - 1e-3 * i : kGuessing; };
  const LossLevel level = after(noisy(1640, 0.05, dies));
  EXPECT_GE(level.at_chance(), 500u);
  EXPECT_LE(level.at_chance(), 640u);
  EXPECT_GE(level.risen(), 500u);
}

TEST(LossLevel, forgives_a_spike) {
  const auto spikes = [](double i) { return i > 1000 && i < 1030 ? 50 : 2 * std::exp(-i / 500); };
  EXPECT_EQ(after(noisy(1300, 0.02, spikes)).risen(), 0u);
}

TEST(LossLevel, sees_a_rise_without_knowing_chance) {
  const auto rises = [](double i) { return i < 500 ? 1 - 1e-3 * i : 8; };
  EXPECT_GE(after(noisy(1000, 0.02, rises), {}).risen(), 400u);
  EXPECT_EQ(after(noisy(1000, 0.02, rises), {}).at_chance(), 0u);
}

TEST(LossLevel, small_losses_may_rise_to_small_ones) {
  const auto memorised = [](double i) { return i < 500 ? 1e-4 : 0.05; };
  EXPECT_EQ(after(noisy(1000, 0.0, memorised)).risen(), 0u);
}

TEST(LossLevel, goes_on_from_what_was_saved) {
  const std::vector<double> losses = noisy(1280, 0.1, [](double) { return kGuessing; });
  LossLevel resumed(kGuessing);
  for (const std::ptrdiff_t stop : {640, 653, 703}) {
    ASSERT_TRUE(resumed.take(after({losses.begin(), losses.begin() + stop}).numbers()));
    for (std::size_t i = stop; i < losses.size(); ++i) resumed.note(losses[i]);
    EXPECT_EQ(resumed.numbers(), after(losses).numbers());
  }
  std::vector<double> older = after(losses).numbers();
  older.resize(LossLevel::kOlder);
  EXPECT_TRUE(LossLevel(kGuessing).take(older));
  EXPECT_FALSE(resumed.take(std::vector<double>{1, 2}));
  EXPECT_FALSE(resumed.take(std::vector<double>(8, -1)));
  EXPECT_EQ(resumed.numbers(), after(losses).numbers());
}

}  // namespace
}  // namespace omni
