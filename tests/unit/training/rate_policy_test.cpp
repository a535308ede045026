#include "scheduling/training/rate_policy.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace omni {
namespace {

double rate(const SolverOptions& solver, std::uint64_t iteration) {
  return static_cast<double>(learning_rate(solver, 1, iteration));
}

SolverOptions with(RatePolicy policy) {
  SolverOptions solver;
  solver.learning_rate = 0.1f;
  solver.policy = policy;
  return solver;
}

TEST(RatePolicy, BurnInRisesToTheRate) {
  SolverOptions solver = with(RatePolicy::constant);
  solver.burn_in = 10;
  solver.power = 4;
  EXPECT_NEAR(rate(solver, 5), 0.1 * std::pow(0.5, 4), 1e-8);
  EXPECT_NEAR(rate(solver, 9), 0.1 * std::pow(0.9, 4), 1e-8);
  EXPECT_NEAR(rate(solver, 10), 0.1, 1e-8);
}

TEST(RatePolicy, Step) {
  SolverOptions solver = with(RatePolicy::step);
  solver.step = 100;
  solver.scale = 0.5f;
  EXPECT_NEAR(rate(solver, 99), 0.1, 1e-8);
  EXPECT_NEAR(rate(solver, 100), 0.05, 1e-8);
  EXPECT_NEAR(rate(solver, 250), 0.025, 1e-8);
}

TEST(RatePolicy, StepsMultiplyUp) {
  SolverOptions solver = with(RatePolicy::steps);
  solver.steps = {10, 20};
  solver.scales = {0.1f, 0.5f};
  EXPECT_NEAR(rate(solver, 9), 0.1, 1e-8);
  EXPECT_NEAR(rate(solver, 10), 0.01, 1e-8);
  EXPECT_NEAR(rate(solver, 20), 0.005, 1e-8);
}

TEST(RatePolicy, ExpPolySigmoid) {
  SolverOptions solver = with(RatePolicy::exp);
  solver.gamma = 0.99f;
  EXPECT_NEAR(rate(solver, 50), 0.1 * std::pow(0.99, 50), 1e-6);
  solver = with(RatePolicy::poly);
  solver.max_batches = 100;
  solver.power = 2;
  EXPECT_NEAR(rate(solver, 25), 0.1 * 0.75 * 0.75, 1e-8);
  EXPECT_EQ(rate(solver, 100), 0);
  EXPECT_EQ(rate(solver, 120), 0);
  solver = with(RatePolicy::sigmoid);
  solver.gamma = 0.1f;
  solver.step = 50;
  EXPECT_NEAR(rate(solver, 50), 0.05, 1e-7);
  EXPECT_NEAR(rate(solver, 60), 0.1 / (1 + std::exp(1)), 1e-7);
}

TEST(RatePolicy, SgdrFallsAlongACosineAndRestarts) {
  SolverOptions solver = with(RatePolicy::sgdr);
  solver.learning_rate_min = 0.02f;
  solver.cycle = 100;
  EXPECT_NEAR(rate(solver, 0), 0.1, 1e-8);
  EXPECT_NEAR(rate(solver, 50), 0.06, 1e-8);
  EXPECT_NEAR(rate(solver, 100), 0.02, 1e-8);
  EXPECT_NEAR(rate(solver, 150), 0.02 + 0.04 * (1 + std::sqrt(0.5)), 1e-8);  // a quarter of 200
  EXPECT_NEAR(rate(solver, 200), 0.06, 1e-8);
  EXPECT_NEAR(rate(solver, 300), 0.02, 1e-8);
  EXPECT_NEAR(rate(solver, 500), 0.06, 1e-8);  // half of the next 400
  solver.cycle_factor = 1;
  EXPECT_NEAR(rate(solver, 100), 0.02, 1e-8);
  EXPECT_NEAR(rate(solver, 1000050), 0.06, 1e-8);
}

TEST(RatePolicy, RandomIsAFunctionOfSeedAndIteration) {
  SolverOptions solver = with(RatePolicy::random);
  solver.power = 1;
  EXPECT_EQ(rate(solver, 3), rate(solver, 3));
  EXPECT_NE(rate(solver, 3), rate(solver, 4));
  EXPECT_NE(learning_rate(solver, 1, 3), learning_rate(solver, 2, 3));
  EXPECT_LT(rate(solver, 3), 0.1);
}

TEST(RatePolicy, PolyAndSgdrEndWithTheTraining) {
  SolverOptions solver = with(RatePolicy::poly);
  solver.max_batches = 100;
  solver.power = 1;
  EXPECT_NEAR(rate(for_length(solver, 400), 100), 0.075, 1e-8);
  EXPECT_NEAR(rate(for_length(solver, 40), 30), 0.025, 1e-8);
  EXPECT_GT(rate(for_length(solver, 1'000'000'000'000), 2'000'000'000), 0);
  EXPECT_TRUE(follows_length(solver));
  solver = with(RatePolicy::sgdr);
  solver.learning_rate_min = 0.02f;
  EXPECT_NEAR(rate(for_length(solver, 50), 25), 0.06, 1e-8);
  EXPECT_NEAR(rate(for_length(solver, 50), 50), 0.02, 1e-8);
  EXPECT_TRUE(follows_length(solver));
  solver.cycle = 10;
  EXPECT_NEAR(rate(for_length(solver, 50), 10), 0.02, 1e-8);
  EXPECT_FALSE(follows_length(solver));
}

// The expected iteration is found by trying every iteration.
TEST(RatePolicy, VanishesWhereNoRateIsLeft) {
  for (const RatePolicy policy : {RatePolicy::exp, RatePolicy::step, RatePolicy::steps,
                                  RatePolicy::sigmoid, RatePolicy::constant, RatePolicy::poly})
    for (const int burn_in : {0, 7}) {
      SolverOptions solver = with(policy);
      solver.burn_in = burn_in;
      solver.gamma = policy == RatePolicy::exp ? 0.3f : 4;
      solver.step = 9;
      solver.scale = 1e-6f;
      solver.steps = {20, 31};
      solver.scales = {0.1f, 0};
      solver.max_batches = 100;
      const auto found = vanishes_at(solver, 1, 100);
      std::uint64_t first = 99;
      while (first > 0 && has_vanished(learning_rate(solver, 1, first))) --first;
      EXPECT_EQ(found.value_or(0), first == 99 ? 0 : first + 1) << static_cast<int>(policy);
      EXPECT_EQ(found.has_value(), policy != RatePolicy::constant && policy != RatePolicy::poly);
      for (const std::uint64_t length : {0, 1, 2, 8}) EXPECT_FALSE(vanishes_at(solver, 1, length));
    }
  SolverOptions none = with(RatePolicy::exp);
  none.learning_rate = 0;
  EXPECT_FALSE(vanishes_at(none, 1, 100)) << "as it was meant";
}

TEST(RatePolicy, KeysOfAnotherLengthAreFound) {
  SolverOptions solver = with(RatePolicy::steps);
  solver.steps = {10, 20};
  solver.scales = {0.1f, 0.1f};
  EXPECT_TRUE(unsuited_keys(solver, 21, 30).empty());
  auto found = unsuited_keys(solver, 20, 30);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key + "=" + found[0].value, "steps=10,20");
  EXPECT_EQ(found[0].better, "7,13");
  EXPECT_TRUE(found[0].late);
  found = unsuited_keys(solver, 60, 30);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].better, "20,40");
  EXPECT_FALSE(found[0].late);
  EXPECT_TRUE(unsuited_keys(solver, 60, 0).empty()) << "the net does not say for how long it was";
  solver.steps = {40, 50};
  EXPECT_TRUE(unsuited_keys(solver, 60, 30).empty()) << "they are meant for this length";
  solver.steps = {10, 20};
  solver.burn_in = 60;
  EXPECT_EQ(unsuited_keys(solver, 60, 60).at(0).key, "burn_in");
}

}  // namespace
}  // namespace omni
