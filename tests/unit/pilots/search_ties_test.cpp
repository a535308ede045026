// These tests check which of two steps a search takes if their losses do not surely differ.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "scheduling/pilots/tuning/search.hpp"

namespace omni {
namespace {

constexpr double kFails = 50, kThird = 3.1622776601683795;  // a step; the factor between steps

// Every trial learns, and its loss is a function of the setting. The sweep of steps learns nothing.
class Told : public TrialRunner {
 public:
  explicit Told(std::function<double(const Setting&)> loss) : loss_(std::move(loss)) {}
  Result<StepSweep> sweep(double first_step, double factor, std::size_t most) override {
    StepSweep sweep{.first = first_step, .factor = factor};
    double step = first_step;
    for (; step < 0.99 * kFails && sweep.losses.size() < most; step *= factor)
      sweep.losses.push_back(2.3);
    sweep.diverged = step >= 0.99 * kFails;
    return sweep;
  }
  Result<TrialResult> challenge(const Setting& setting, std::uint64_t) override {
    return TrialResult{TrialEnd::learns, std::vector<double>(8, loss_(setting))};
  }
  Result<TrialResult> defend(std::uint64_t) override { return TrialResult{TrialEnd::at_chance}; }
  void promote() override {}
  void decided(const std::string&) override {}
  bool can_afford(std::uint64_t) const override { return true; }

 private:
  std::function<double(const Setting&)> loss_;
};

// Returns the step that a search for one group ends with.
double step_found(double given, bool cold, const std::function<double(const Setting&)>& loss,
                  double failing_step = INFINITY, double momentum = 0.9) {
  Told runner(loss);
  const auto found =
      search(with_step({1, momentum, 1}, given),
             {.length = 20, .cold = cold, .chance = 2.3, .failing_step = failing_step}, runner);
  EXPECT_TRUE(found);
  return step_of(found->setting);
}

double all_alike(const Setting&) { return 1; }

// Trials of more than 20 iterations diverge, and so do the champion's.
class TooLong : public Told {
 public:
  using Told::Told;
  Result<TrialResult> challenge(const Setting& setting, std::uint64_t iterations) override {
    if (iterations > 20) return TrialResult{};
    return Told::challenge(setting, iterations);
  }
  Result<TrialResult> defend(std::uint64_t) override { return TrialResult{}; }
};

TEST(Champion, that_diverges_in_a_longer_trial_is_known_to) {
  const Setting given = with_step({1, 0.9, 1}, 1);
  TooLong runner([&](const Setting& setting) { return setting == given ? 1 : 0.985; });
  const auto found = search(given, {.length = 20, .chance = 2.3}, runner);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->end, TrialEnd::diverged);
  EXPECT_NE(std::ranges::find(found->diverged, given), found->diverged.end());
}

// In a first search a step above an eighth of the failing step loses a tie against a smaller step.
TEST(SaferStep, wins_a_tie_of_a_first_search_against_a_step_near_the_failing_one) {
  EXPECT_NEAR(step_found(kFails / 5, true, all_alike), kFails / 5 / kThird, 0.01);
  EXPECT_NEAR(step_found(kFails / 7, true, all_alike), kFails / 7 / kThird, 0.01);
  EXPECT_NEAR(step_found(kFails / 10, true, all_alike), kFails / 10, 0.01);
}

TEST(SaferStep, does_not_win_later_when_the_larger_one_has_shown_that_it_is_not_too_large) {
  EXPECT_NEAR(step_found(kFails / 5, false, all_alike, kFails), kFails / 5, 0.01);
}

// The given step learns nearly nothing. Next a hundredth of the failing step is tried, and wins.
double slightly_better(const Setting& setting, double by) {
  const double step = step_of(setting);
  return step < kFails / 1000 ? 2.1 : 1 - by * std::log10(step);
}

TEST(LargerStep, wins_one_tie_if_its_loss_is_a_little_lower) {
  const auto lower = [](const Setting& at) { return slightly_better(at, 0.001); };
  const auto higher = [](const Setting& at) { return slightly_better(at, -0.001); };
  EXPECT_NEAR(step_found(kFails / 1e6, true, lower), kFails / 100 * kThird, 0.02);
  EXPECT_NEAR(step_found(kFails / 1e6, true, higher), kFails / 100, 0.02);
}

TEST(LargerStep, wins_no_tie_against_the_given_one) {
  EXPECT_NEAR(
      step_found(kFails / 100, true, [](const Setting& at) { return slightly_better(at, 0.001); }),
      kFails / 100, 0.01);
}

// First a third of the given step wins. Then the given step with more momentum ties, and wins only
// if it is not near the failing step.
TEST(LargerStep, wins_no_tie_near_the_failing_one) {
  const auto loss = [](const Setting& at) {
    return step_of(at) > 0.9 && at.momentum < 0.6 ? 2.0 : 1 - 0.001 * std::log10(step_of(at));
  };
  EXPECT_NEAR(step_found(1, false, loss, 10, 0.5), 1, 0.01);
  EXPECT_NEAR(step_found(1, false, loss, 7, 0.5), 1 / kThird, 0.01);
}

}  // namespace
}  // namespace omni
