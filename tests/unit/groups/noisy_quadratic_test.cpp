// These tests train a noisy quadratic by asynchronous updates. They compare the theory with
// published optima, and the exchange's code with the theory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "codelets/elementwise/exchange.hpp"
#include "tests/support/quadratic_theory.hpp"
#include "tests/support/virtual_groups.hpp"

namespace omni {
namespace {

// Figure 6 of "Asynchrony begets momentum" shows the best explicit momentum for implicit momenta of
// 0, 0.1 ... 0.9. The test recomputes it from theorem 7.
TEST(NoisyQuadratic, best_explicit_momentum_is_the_published_one) {
  const std::vector<double> of_5{.149,  .052,  -.062, -.171, -.187,
                                 -.214, -.236, -.257, -.279, -.290};
  const std::vector<double> of_20{.409, .306, .198, .106, .008, -.176, -.257, -.263, -.295, -.301};
  for (int tenths = 0; tenths < 10; ++tenths) {
    const auto at = static_cast<std::size_t>(tenths);
    EXPECT_NEAR(test::best_momentum(5, tenths / 10.0).explicit_part, of_5[at], 0.03) << tenths;
    EXPECT_NEAR(test::best_momentum(20, tenths / 10.0).explicit_part, of_20[at], 0.03) << tenths;
  }
}

TEST(NoisyQuadratic, without_asynchrony_the_best_momentum_is_polyak_s) {
  for (const double condition : {5.0, 20.0, 500.0}) {
    const double root = std::sqrt(condition), best = (root - 1) / (root + 1);
    EXPECT_NEAR(test::best_momentum(condition, 0).contraction, best, 1e-2);
    EXPECT_NEAR(test::best_momentum(condition, 0).explicit_part, best * best, 0.03);
  }
}

// Returns the mean values of the master parameters over 400 runs. The groups' times are
// exponentially distributed, and gradients have noise.
std::vector<std::vector<double>> mean_path(int groups, double momentum, double rate,
                                           const std::vector<double>& curvatures, int updates) {
  constexpr int kRuns = 400;
  const std::size_t size = curvatures.size();
  std::vector<std::vector<double>> mean(static_cast<std::size_t>(updates),
                                        std::vector<double>(size));
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(0, 0.1);
  for (int run = 0; run < kRuns; ++run) {
    test::VirtualGroups order(groups, test::VirtualGroups::exponential(), random());
    std::vector<double> master(size, 1), velocity(size), diff(size);
    std::vector<std::vector<double>> replicas(static_cast<std::size_t>(groups), master);
    for (std::vector<double>& at : mean) {
      for (std::size_t i = 0; i < size; ++i) at[i] += master[i] / kRuns;
      std::vector<double>& replica = replicas[static_cast<std::size_t>(order.next())];
      for (std::size_t i = 0; i < size; ++i) diff[i] = curvatures[i] * replica[i] + noise(random);
      const ExchangeArgs args{.count = static_cast<std::int64_t>(size),
                              .learning_rate = static_cast<float>(rate),
                              .momentum = static_cast<float>(momentum),
                              .refresh = true};
      reference::exchange<double>(args,
                                  {master.data(), diff.data(), velocity.data(), replica.data()});
    }
  }
  return mean;
}

// Returns the implicit momentum that theorem 6 gives for the mean path of the parameters.
double measured_implicit(int groups, double momentum) {
  constexpr double kRate = 0.01;
  constexpr int kUpdates = 300;
  std::vector<double> curvatures;
  for (int i = 0; i < 20; ++i) curvatures.push_back(0.4 + 0.08 * i);
  const auto w = mean_path(groups, momentum, kRate, curvatures, kUpdates);
  double above = 0, below = 0;
  for (std::size_t t = 2; t + 1 < w.size(); ++t)
    for (std::size_t i = 0; i < curvatures.size(); ++i) {
      const double next = w[t + 1][i] - w[t][i], now = w[t][i] - w[t - 1][i],
                   last = w[t - 1][i] - w[t - 2][i], gradient = kRate * curvatures[i] * w[t][i];
      above += next - momentum * now + gradient;
      below += now - momentum * last + gradient;
    }
  return above / below;
}

TEST(NoisyQuadratic, groups_have_the_implicit_momentum_of_the_theory) {
  for (const int groups : {1, 2, 4, 8, 16})
    for (const double momentum : {0.0, 0.3})
      EXPECT_NEAR(measured_implicit(groups, momentum), 1 - 1.0 / groups, 0.03)
          << groups << " groups, momentum " << momentum;
}

}  // namespace
}  // namespace omni
