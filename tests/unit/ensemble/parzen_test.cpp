// These tests compare the Parzen estimator with densities that are written down plainly, and check
// what it finds.
#include "scheduling/ensemble/parzen.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace omni {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Returns the mass of one kernel between two ends by the trapezoid rule, without erf and
// logarithms.
double kernel_mass(double mean, double width, double low, double high) {
  constexpr int kSteps = 20000;
  double sum = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double x = low + (high - low) * i / kSteps, z = (x - mean) / width;
    sum += std::exp(-z * z / 2) * (i == 0 || i == kSteps ? 0.5 : 1);
  }
  return sum * (high - low) / kSteps / (width * std::sqrt(2 * kPi));
}

// The expected density has a kernel for each of two values, and one for the range. Their widths are
// worked out by hand.
TEST(Parzen, DensityOfNumbers) {
  const ParzenAxis axis{.low = 0, .high = 10};
  const ParzenDensity density(axis, std::vector<double>{1, 4});
  // The sorted means are 1, 4 and 5, of which 5 is the range's. A width is the larger distance to a
  // neighbour, here 3 for both values, and at least 10/4.
  const auto expected = [](double x) {
    double sum = 0;
    for (const auto& [mean, width] :
         {std::pair(1.0, 3.0), std::pair(4.0, 3.0), std::pair(5.0, 10.0)}) {
      const double z = (x - mean) / width;
      sum +=
          std::exp(-z * z / 2) / (width * std::sqrt(2 * kPi)) / kernel_mass(mean, width, 0, 10) / 3;
    }
    return sum;
  };
  for (const double x : {0.0, 0.5, 1.0, 4.0, 7.3, 10.0})
    EXPECT_NEAR(std::exp(density.log_of(x)), expected(x), 1e-6) << x;
}

TEST(Parzen, NarrowKernelsHaveALeastWidth) {
  const ParzenDensity density({.low = 0, .high = 1}, std::vector<double>{0.2, 0.2, 0.2});
  const auto expected = [](double x) {
    double sum = 0;
    // With four kernels, the least width is a fifth of the range. The third value's neighbour is
    // the range's mean 0.5, at a distance of 0.3.
    for (const auto& [mean, width] :
         {std::pair(0.2, 0.2), std::pair(0.2, 0.2), std::pair(0.2, 0.3), std::pair(0.5, 1.0)}) {
      const double z = (x - mean) / width;
      sum +=
          std::exp(-z * z / 2) / (width * std::sqrt(2 * kPi)) / kernel_mass(mean, width, 0, 1) / 4;
    }
    return sum;
  };
  for (const double x : {0.0, 0.2, 0.9})
    EXPECT_NEAR(std::exp(density.log_of(x)), expected(x), 1e-6);
}

TEST(Parzen, WholeNumbersAndChoicesHaveProbabilities) {
  const ParzenDensity whole({.low = 1, .high = 6, .whole = true}, std::vector<double>{2, 5, 5});
  const ParzenDensity logs({.low = 1, .high = 64, .logarithmic = true, .whole = true},
                           std::vector<double>{4, 8, 60});
  for (const auto& [density, most] : {std::pair(&whole, 6), std::pair(&logs, 64)}) {
    double sum = 0;
    for (int i = 1; i <= most; ++i) sum += std::exp(density->log_of(i));
    EXPECT_NEAR(sum, 1, 1e-9);
  }
  EXPECT_GT(whole.log_of(5), whole.log_of(3));
  // As in Optuna, a kernel gives each choice 1/4, and 1 more to the choice that was seen, divided
  // by 1.75. The last kernel gives all choices the same.
  const ParzenDensity choices({.choices = 3}, std::vector<double>{1, 1, 0});
  const double seen = 1.25 / 1.75, other = 0.25 / 1.75;
  EXPECT_NEAR(std::exp(choices.log_of(0)), (2 * other + seen + 1.0 / 3) / 4, 1e-12);
  EXPECT_NEAR(std::exp(choices.log_of(1)), (2 * seen + other + 1.0 / 3) / 4, 1e-12);
  EXPECT_NEAR(std::exp(choices.log_of(2)), (3 * other + 1.0 / 3) / 4, 1e-12);
}

TEST(Parzen, OfMoreThan25TrialsOldOnesCountLess) {
  // Of 28 trials, the first three have the weights 1/28, 14.5/28 and 1, as all others have.
  std::vector<double> values(28, 0);
  values[0] = 1;
  values[1] = 2;
  const ParzenDensity density({.choices = 3}, values);
  const double n = 29, total = 27 + 1.0 / 28 + 14.5 / 28, seen = (1 + 1 / n) / (1 + 3 / n),
               other = (1 / n) / (1 + 3 / n);
  EXPECT_NEAR(std::exp(density.log_of(1)),
              (seen / 28 + other * (total - 1 - 1.0 / 28) + 1.0 / 3) / total, 1e-12);
}

// Draws have the density that log_of() gives.
TEST(Parzen, DrawsFollowTheDensity) {
  const auto share = [](const ParzenDensity& density, const std::function<bool(double)>& is_in) {
    Draws draws(Philox(3, RandomStream::parzen), 0);
    int in = 0;
    for (int i = 0; i < 40000; ++i) in += is_in(density.draw(draws));
    return in / 40000.0;
  };
  const ParzenDensity logs({.low = 1, .high = 64, .logarithmic = true, .whole = true},
                           std::vector<double>{4, 8, 60});
  for (const int each : {1, 4, 8, 60, 64})
    EXPECT_NEAR(share(logs, [&](double x) { return x == each; }), std::exp(logs.log_of(each)),
                0.01);
  const ParzenDensity choices({.choices = 3}, std::vector<double>{1, 1, 0});
  for (const int each : {0, 1, 2})
    EXPECT_NEAR(share(choices, [&](double x) { return x == each; }), std::exp(choices.log_of(each)),
                0.01);
  const ParzenDensity numbers({.low = 1e-4, .high = 1, .logarithmic = true},
                              std::vector<double>{1e-3, 2e-3});
  double below = 0;  // the integral up to 0.01, over the logarithm
  for (int i = 0; i < 2000; ++i)
    below +=
        std::exp(numbers.log_of(1e-4 * std::pow(100, (i + 0.5) / 2000))) * std::log(100) / 2000;
  EXPECT_NEAR(share(numbers, [](double x) { return x < 0.01; }), below, 0.01);
}

double best_of(bool learns, const std::vector<ParzenAxis>& axes, int trials,
               const std::function<double(const std::vector<double>&)>& loss, std::uint64_t seed) {
  std::vector<ParzenTrial> ended;
  double best = INFINITY;
  while (std::ssize(ended) < trials) {
    std::vector<std::vector<double>> wave;
    for (int i = 0; i < (ended.empty() ? 10 : 3); ++i) {
      Draws draws(Philox(seed, RandomStream::parzen), ended.size() + wave.size());
      const bool first = !learns || ended.empty();
      wave.push_back(parzen_draw(axes, first ? std::span<const ParzenTrial>() : ended,
                                 first ? std::span<const std::vector<double>>() : wave, draws));
    }
    for (const auto& each : wave) {
      ended.push_back({.values = each, .complete = true, .iterations = 1, .loss = loss(each)});
      best = std::min(best, ended.back().loss);
    }
  }
  return best;
}

// With equal numbers of trials, the estimator's median result over 101 seeds must be better than
// that of random settings. The functions have one valley or several.
TEST(Parzen, FindsMoreThanChance) {
  const std::vector<ParzenAxis> axes{{.low = 1e-5, .high = 1, .logarithmic = true},
                                     {.low = 0, .high = 1},
                                     {.low = 1, .high = 64, .whole = true},
                                     {.choices = 4}};
  const std::pair<const char*, std::function<double(const std::vector<double>&)>> kFunctions[] = {
      {"bowl",
       [](const std::vector<double>& x) {
         return std::pow(std::log10(x[0]) + 2, 2) + 4 * std::pow(x[1] - 0.9, 2) +
                std::pow((x[2] - 20) / 32, 2) + (x[3] == 2 ? 0 : 1);
       }},
      {"waves",
       [](const std::vector<double>& x) {
         const double lg = std::log10(x[0]) + 3;
         return lg * lg + 0.5 * std::sin(5 * lg) + std::abs(x[1] - 0.3) + 0.1 * x[3];
       }},
      {"edge", [](const std::vector<double>& x) { return 1 - x[1] + std::abs(std::log10(x[0])); }}};
  for (const auto& [name, loss] : kFunctions) {
    std::vector<double> learnt, chance;
    for (std::uint64_t seed = 0; seed < 101; ++seed) {
      learnt.push_back(best_of(true, axes, 40, loss, seed));
      chance.push_back(best_of(false, axes, 40, loss, seed));
    }
    std::ranges::sort(learnt);
    std::ranges::sort(chance);
    EXPECT_LT(learnt[50], chance[50]) << name;
    // This is a sign test. If both were alike, 70 of 101 seeds would be better than the median less
    // than once in 10,000 times.
    const auto better =
        std::ranges::count_if(learnt, [&](double each) { return each < chance[50]; });
    EXPECT_GE(better, 70) << name << ": " << learnt[50] << " and " << chance[50];
  }
}

// A trial that still runs counts as bad, so values near it are drawn less often.
TEST(Parzen, TrialsAtTheSameTimeDiffer) {
  const std::vector<ParzenAxis> axis{{.low = 0, .high = 1}};
  const std::vector<ParzenTrial> ended{{{0.3}, true, 1, 0.1}, {{0.9}, true, 1, 0.9}};
  const auto near = [&](const std::vector<std::vector<double>>& running) {
    int times = 0;
    for (std::uint64_t i = 0; i < 400; ++i) {
      Draws draws(Philox(1, RandomStream::parzen), i);
      times += std::abs(parzen_draw(axis, ended, running, draws)[0] - 0.1) < 0.1;
    }
    return times;
  };
  EXPECT_LT(2 * near({{0.05}, {0.1}, {0.1}}), near({}));
}

// Trials are ranked: complete trials come before others, of which the longer ones come first. A
// trial with NaN comes last.
TEST(Parzen, TrialsThatWereEndedAreWorse) {
  const std::vector<ParzenAxis> axis{{.choices = 50}};
  const auto drawn = [&](std::vector<ParzenTrial> trials) {
    std::vector<int> times(50);
    for (std::uint64_t i = 0; i < 400; ++i) {
      Draws draws(Philox(1, RandomStream::parzen), i);
      ++times[static_cast<std::size_t>(parzen_draw(axis, trials, {}, draws)[0])];
    }
    return std::ranges::max_element(times) - times.begin();
  };
  const auto trial = [](double value, bool complete, std::uint64_t iterations, double loss) {
    return ParzenTrial{{value}, complete, iterations, loss};
  };
  EXPECT_EQ(drawn({trial(7, false, 90, 0.1), trial(8, true, 100, 0.5), trial(9, true, 100, 0.6)}),
            8);
  EXPECT_EQ(drawn({trial(7, false, 30, 0.1), trial(8, false, 90, 0.5), trial(9, false, 90, 0.6)}),
            8);
  EXPECT_EQ(drawn({trial(7, true, 100, NAN), trial(8, true, 100, 0.9)}), 8);
}

}  // namespace
}  // namespace omni
