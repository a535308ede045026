// These tests run the search of --auto on problems with a known answer: noisy quadratic functions
// of any curvature, from any start.
#include "scheduling/pilots/tuning/search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>

namespace omni {
namespace {

using testing::HasSubstr;

constexpr double kLossAtChance = 2.3;

// Bowl is a quadratic function of six parameters. The noise of its gradients and losses depends
// only on the mini-batch.
struct Bowl {
  std::array<double, 6> curvatures{1, 0.5, 0.2, 0.1, 0.05, 0.02};
  double scale = 1, noise = 0.3;

  struct Point {
    std::array<double, 6> at{}, velocity{};
  };
  Point start() const {
    Point point;
    for (std::size_t i = 0; i < point.at.size(); ++i)
      point.at[i] = std::sqrt(2 * kLossAtChance / 6 / (scale * curvatures[i]));
    return point;
  }
  double loss(const Point& point) const {
    double sum = 0;
    for (std::size_t i = 0; i < point.at.size(); ++i)
      sum += scale * curvatures[i] * point.at[i] * point.at[i] / 2;
    return sum;
  }
  void step(Point& point, int batch, double rate, double momentum) const {
    std::mt19937 random(static_cast<unsigned>(batch));
    std::normal_distribution<double> draw;
    for (std::size_t i = 0; i < point.at.size(); ++i) {
      const double curvature = scale * curvatures[i];
      const double gradient =
          curvature * point.at[i] + noise * std::sqrt(curvature * kLossAtChance) * draw(random);
      point.velocity[i] = momentum * point.velocity[i] - rate * gradient;
      point.at[i] += point.velocity[i];
    }
  }
};

struct Entrant {
  Setting setting;
  Bowl::Point at;
  std::uint64_t iterations = 0;
};

class BowlRunner : public TrialRunner {
 public:
  explicit BowlRunner(const Bowl& bowl, std::uint64_t budget = 1000)
      : bowl_(bowl), budget_(budget), start_(bowl.start()) {}

  Result<StepSweep> sweep(double first_step, double factor, std::size_t most) override {
    StepSweep sweep{.first = first_step, .factor = factor};
    Bowl::Point point = start_;
    while (sweep.losses.size() < most && !step_range(sweep, kLossAtChance).fails) {
      const auto i = std::ssize(sweep.losses);
      sweep.losses.push_back(bowl_.loss(point));
      bowl_.step(point, static_cast<int>(i),
                 first_step * std::pow(factor, i) * (1 - kSweepMomentum), kSweepMomentum);
    }
    spent += sweep.losses.size();
    return sweep;
  }
  Result<TrialResult> challenge(const Setting& setting, std::uint64_t iterations) override {
    if (challenger_.setting != setting) challenger_ = {setting, start_, 0};
    tried.push_back(setting);
    return advance(challenger_, iterations);
  }
  Result<TrialResult> defend(std::uint64_t iterations) override {
    return advance(champion_, iterations);
  }
  void promote() override { std::swap(champion_, challenger_); }
  void decided(const std::string& reason) override { reasons.push_back(reason); }
  bool can_afford(std::uint64_t iterations) const override { return spent + iterations <= budget_; }

  void swept(const StepSweep&, const StepRange& found) override { range = found; }

  std::vector<Setting> tried;
  std::vector<std::string> reasons;
  StepRange range;  // of the last sweep
  std::uint64_t spent = 0;

 private:
  TrialResult advance(Entrant& entrant, std::uint64_t iterations) {
    for (; entrant.iterations < iterations; ++entrant.iterations, ++spent) {
      bowl_.step(entrant.at, static_cast<int>(entrant.iterations), entrant.setting.learning_rate,
                 entrant.setting.momentum);
      if (!(bowl_.loss(entrant.at) < 10 * kLossAtChance)) return {};
    }
    Bowl::Point cooled = entrant.at;
    const int cooldown = static_cast<int>(iterations / 4);
    for (int i = 0; i < cooldown; ++i)
      bowl_.step(cooled, static_cast<int>(iterations) + i,
                 entrant.setting.learning_rate * (1 - i / (cooldown + 1.0)),
                 entrant.setting.momentum);
    TrialResult result{TrialEnd::learns};
    for (int batch = 0; batch < 24; ++batch) {
      std::mt19937 random(static_cast<unsigned>(1'000'000 + batch));
      result.losses.push_back(bowl_.loss(cooled) *
                              (1 + 0.1 * std::normal_distribution<double>()(random)));
    }
    if (result.loss() > 0.98 * kLossAtChance) result.end = TrialEnd::at_chance;
    return result;
  }

  Bowl bowl_;
  std::uint64_t budget_;
  Bowl::Point start_;
  Entrant champion_, challenger_;
};

// Returns the loss after `iterations` iterations, with a falling rate in the last quarter.
double trained(const Bowl& bowl, const Setting& setting, int iterations = 1000) {
  Bowl::Point point = bowl.start();
  for (int i = 0; i < iterations; ++i) {
    const double left = 4.0 * (iterations - i) / iterations;
    bowl.step(point, i, setting.learning_rate * std::min(1.0, left), setting.momentum);
  }
  const double loss = bowl.loss(point);
  return std::isfinite(loss) ? loss : INFINITY;
}

double best_of_grid(const Bowl& bowl) {
  double best = INFINITY;
  for (double rate = 1e-5; rate < 1e4; rate *= 2)
    for (const double momentum : {0.0, 0.5, 0.9})
      best = std::min(best, trained(bowl, {1, momentum, rate}));
  return best;
}

TEST(Search, finds_a_good_setting_from_any_start) {
  for (const double scale : {0.01, 1.0, 100.0})
    for (const double noise : {0.03, 0.3}) {
      const Bowl bowl{.scale = scale, .noise = noise};
      const double best = best_of_grid(bowl);
      for (const double off : {0.01, 0.1, 1.0, 10.0, 100.0})
        for (const double momentum : {0.0, 0.9, 0.99}) {
          const Setting given{1, momentum, off * 0.1 / scale};
          BowlRunner runner(bowl);
          const auto found = search(given, {.length = 20, .cold = true}, runner);
          ASSERT_TRUE(found) << found.error().message();
          EXPECT_EQ(found->end, TrialEnd::learns);
          // A first search has only short trials, so the bound is loose.
          EXPECT_LT(trained(bowl, found->setting), 0.25 * kLossAtChance)
              << "from " << describe(given) << " to " << describe(found->setting) << ", curvature "
              << scale << ", noise " << noise << ", best " << best;
          EXPECT_LT(runner.spent, 600u);
        }
    }
}

TEST(Search, never_goes_above_a_step_that_lost_the_training) {
  BowlRunner runner({});
  const auto found =
      search({1, 0, 0.01}, {.length = 20, .cold = true, .failed = {{1, 0.05}}}, runner);
  ASSERT_TRUE(found);
  for (const Setting& each : runner.tried) EXPECT_LT(step_of(each), 0.05) << describe(each);
}

// The failure of two groups says nothing of one group, whose gradients are not stale.
TEST(Search, goes_above_a_step_that_lost_a_training_in_more_groups) {
  BowlRunner runner({});
  ASSERT_TRUE(search({1, 0, 0.01}, {.length = 20, .cold = true, .failed = {{2, 0.05}}}, runner));
  EXPECT_TRUE(std::ranges::any_of(runner.tried, [](auto& each) { return step_of(each) > 0.05; }));
}

TEST(Search, suggests_half_of_the_best_step_of_the_sweep_and_tries_none_above_it) {
  BowlRunner runner({});
  ASSERT_TRUE(search({1, 0.9, 0.0001}, {.length = 20, .cold = true}, runner));
  ASSERT_TRUE(runner.range.best);
  EXPECT_NEAR(step_of(runner.tried[1]), *runner.range.best / 2, 1e-9);
  for (const Setting& each : runner.tried) EXPECT_LE(step_of(each), *runner.range.best);
}

TEST(Search, tries_nothing_twice) {
  BowlRunner runner({});
  ASSERT_TRUE(search({1, 0.9, 0.001}, {.length = 20, .cold = true}, runner));
  std::map<std::pair<double, double>, int> times;
  Setting last{};
  for (const Setting& each : runner.tried) {
    if (each == last) continue;  // goes on
    EXPECT_EQ(++times[std::pair(each.momentum, each.learning_rate)], 1) << describe(each);
    last = each;
  }
}

TEST(Search, ends_when_nothing_more_can_be_afforded) {
  BowlRunner runner({}, 100);
  ASSERT_TRUE(search({1, 0.9, 0.001}, {.length = 20, .cold = true}, runner));
  EXPECT_LE(runner.spent, 100u);
}

// A trial of 20 iterations is too short for momentum 0.99, so the same step is tried with momentum
// 0.9.
TEST(Search, judges_a_momentum_only_in_trials_that_are_long_enough) {
  BowlRunner runner({});
  ASSERT_TRUE(search({1, 0.99, 0.001}, {.length = 20, .cold = true}, runner));
  EXPECT_NEAR(runner.tried.front().momentum, 0.9, 1e-9);
  EXPECT_NEAR(step_of(runner.tried.front()), 0.1, 1e-9);
  BowlRunner longer({}, 10'000);
  ASSERT_TRUE(search({1, 0.99, 0.001}, {.length = 400, .cold = true}, longer));
  EXPECT_EQ(longer.tried.front().momentum, 0.99);
}

TEST(Search, says_that_all_trials_diverged) {
  BowlRunner runner({});
  const auto found = search({1, 0.9, 1e30}, {.length = 20, .cold = true}, runner);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::diverged);
  EXPECT_THAT(found.error().message(), HasSubstr("all 7 trials diverged"));
}

// With more than one group, this runner multiplies the losses by `worse`.
class EqualGroups : public BowlRunner {
 public:
  explicit EqualGroups(double worse) : BowlRunner(Bowl{}), worse_(worse) {}
  Result<TrialResult> challenge(const Setting& setting, std::uint64_t iterations) override {
    OMNI_TRY(TrialResult result, BowlRunner::challenge(setting, iterations));
    if (setting.groups > 1)
      for (double& loss : result.losses) loss *= worse_;
    return result;
  }

 private:
  double worse_;
};

TEST(Search, takes_more_groups_only_when_they_are_surely_better) {
  const Setting given{1, 0.9, 0.03};
  EqualGroups better(0.8), worse(1.2);
  const auto with = search(given, {.length = 50, .more_groups = {2, 4}}, better);
  const auto without = search(given, {.length = 50, .more_groups = {2, 4}}, worse);
  ASSERT_TRUE(with && without);
  EXPECT_GT(with->setting.groups, 1);
  EXPECT_EQ(without->setting.groups, 1);
}

// AtChance stands for a net whose loss stays at chance in trials, unless the step is larger than
// `learns_from`.
class AtChance : public TrialRunner {
 public:
  explicit AtChance(double learns_from = INFINITY, double dead_from = INFINITY)
      : learns_from_(learns_from), dead_from_(dead_from) {}
  // The loss falls for steps between `learns_from` and `dead_from`. Only steps above kDiverges
  // diverge.
  Result<StepSweep> sweep(double first_step, double factor, std::size_t most) override {
    StepSweep sweep{.first = first_step, .factor = factor};
    for (double step = first_step; sweep.losses.size() < most && !sweep.diverged; step *= factor) {
      sweep.diverged = step > kDiverges;
      if (!sweep.diverged)
        sweep.losses.push_back(step > learns_from_ && step < dead_from_ ? 2 - 0.1 * std::log(step)
                                                                        : kLossAtChance);
    }
    return sweep;
  }
  static constexpr double kDiverges = 50;
  Result<TrialResult> challenge(const Setting& setting, std::uint64_t) override {
    last_ = setting;
    tried.push_back(setting);
    const double step = step_of(setting);
    return TrialResult{step > dead_from_     ? TrialEnd::dead
                       : step > learns_from_ ? TrialEnd::learns
                                             : TrialEnd::at_chance,
                       std::vector<double>(8, step > learns_from_ ? 1.0 : kLossAtChance)};
  }
  Result<TrialResult> defend(std::uint64_t) override { return TrialResult{TrialEnd::at_chance}; }
  void promote() override { champion = last_; }
  void decided(const std::string&) override {}
  bool can_afford(std::uint64_t) const override { return tried.size() < 20; }
  Setting champion;
  std::vector<Setting> tried;

 private:
  double learns_from_, dead_from_;
  Setting last_;
};

TEST(Search, decides_nothing_while_losses_are_at_chance) {
  AtChance runner;
  const auto found = search({1, 0.9, 0.01}, {.length = 20, .cold = true}, runner);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->end, TrialEnd::at_chance);
  EXPECT_FALSE(found->learns);
  EXPECT_EQ(found->setting, (Setting{1, 0.9, 0.01}));
}

// All trials stay at chance, but the given step is a millionth of the step that diverges.
TEST(Search, leaves_a_step_that_is_far_too_small_even_at_chance) {
  AtChance runner;
  const auto found = search({1, 0.9, 5e-6}, {.length = 20, .cold = true}, runner);
  ASSERT_TRUE(found);
  EXPECT_GT(step_of(found->setting), AtChance::kDiverges / 1000);
  EXPECT_LT(step_of(found->setting), AtChance::kDiverges / 3);
}

TEST(Search, goes_on_with_no_step_that_was_not_tried) {
  class Poor : public AtChance {
    bool can_afford(std::uint64_t) const override { return tried.empty(); }
  } runner;
  const auto found = search({1, 0.9, 5e-6}, {.length = 20, .cold = true}, runner);
  ASSERT_TRUE(found);
  EXPECT_EQ(runner.tried.size(), 1u);
  EXPECT_EQ(found->setting, (Setting{1, 0.9, 5e-6}));
}

// Without momentum, steps up to 0.5 are stable. With momentum, steps up to 5 are stable, and larger
// steps give lower losses.
TEST(Search, a_step_that_diverges_without_momentum_is_tried_with_it) {
  class Stable : public AtChance {
   public:
    Result<TrialResult> challenge(const Setting& setting, std::uint64_t) override {
      last = setting;
      tried.push_back(setting);
      const double step = step_of(setting);
      if (step > (setting.momentum > 0.5 ? 5 : 0.5)) return TrialResult{};
      return TrialResult{TrialEnd::learns, std::vector<double>(8, 1 / step)};
    }
    Result<TrialResult> defend(std::uint64_t) override { return TrialResult{TrialEnd::learns}; }
    void promote() override { champion = last; }
    Setting last;
  } runner;
  const auto found = search({1, 0, 0.4}, {.length = 20, .cold = true}, runner);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->setting.momentum, 0.9, 1e-9);
  EXPECT_GT(step_of(found->setting), 1);
}

TEST(Search, keeps_the_given_step_when_a_larger_one_kills_the_net) {
  AtChance runner(INFINITY, 0.5);
  const auto found = search({1, 0.9, 0.01}, {.length = 20, .cold = true}, runner);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->setting, (Setting{1, 0.9, 0.01}));
}

TEST(Search, ties_go_to_the_given_setting) {
  for (const bool cold : {false, true}) {
    AtChance runner(0);  // all learn alike
    const auto found = search({1, 0.9, 0.01}, {.length = 20, .cold = cold}, runner);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->setting, (Setting{1, 0.9, 0.01}));
    EXPECT_GT(runner.tried.size(), 3u);
  }
}

TEST(Search, looks_for_larger_steps_until_one_learns) {
  AtChance runner(5);
  const auto found = search({1, 0.9, 0.001}, {.length = 20, .cold = true}, runner);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->end, TrialEnd::learns);
  EXPECT_GT(step_of(found->setting), 5);
}

TEST(Search, looks_for_smaller_steps_when_the_given_one_kills_the_net) {
  AtChance runner(0.05, 0.5);
  const auto found = search({1, 0.9, 2}, {.length = 20, .cold = true}, runner);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->end, TrialEnd::learns);
  EXPECT_LT(step_of(found->setting), 0.5);
}

}  // namespace
}  // namespace omni
