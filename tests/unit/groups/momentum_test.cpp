#include "scheduling/groups/momentum.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

namespace omni {
namespace {

// Returns the distance of a quadratic of curvature 1 from its minimum after 4000 updates with this
// step and momentum. Each update uses a gradient that is `age` updates old.
double distance_after(double step, double momentum, int age) {
  std::deque<double> points(age + 1, 1.0);  // the oldest first
  double velocity = 0;
  for (int update = 0; update < 4000; ++update) {
    velocity = momentum * velocity - step * (1 - momentum) * points.front();
    points.push_back(points.back() + velocity);
    points.pop_front();
    if (std::abs(points.back()) > 1e9) break;  // it grows
  }
  double largest = 0;
  for (const double point : points) largest = std::max(largest, std::abs(point));
  return largest;
}

TEST(Momentum, implicit_part_of_groups_is_1_minus_1_over_g) {
  for (const int groups : {1, 2, 4, 8, 16, 32})
    EXPECT_DOUBLE_EQ(implicit_of_groups(groups), 1 - 1.0 / groups);
}

TEST(Momentum, compensation_keeps_the_total) {
  for (const double tuned : {0.5, 0.9, 0.99})
    for (const int groups : {1, 2, 4, 8, 16}) {
      const Momentum momentum = compensate(tuned, implicit_of_groups(groups));
      if (momentum.explicit_part > 0) {
        EXPECT_NEAR(momentum.total(), tuned, 1e-12);
      }
      EXPECT_LE(momentum.total(), 1);
      EXPECT_LE(momentum.explicit_part, tuned);
    }
}

TEST(Momentum, explicit_part_is_not_negative_unless_tuned_so) {
  EXPECT_NEAR(compensate(0.9, implicit_of_groups(8)).explicit_part, 0.2, 1e-12);
  EXPECT_EQ(compensate(0.9, implicit_of_groups(16)).explicit_part, 0);
  EXPECT_EQ(compensate(0.0, implicit_of_groups(4)).explicit_part, 0);
  EXPECT_EQ(compensate(-0.8, implicit_of_groups(2)).explicit_part, -0.8);
}

TEST(Momentum, compensation_keeps_how_far_a_gradient_moves_the_parameters) {
  for (const double tuned : {0.0, 0.5, 0.9, 0.99})
    for (const int groups : {1, 2, 4, 16}) {
      const Momentum momentum = compensate(tuned, implicit_of_groups(groups));
      EXPECT_NEAR(momentum.rate_factor() / (1 - momentum.explicit_part), 1 / (1 - tuned), 1e-9);
    }
  EXPECT_EQ(compensate(0.9, 0).rate_factor(), 1) << "one group: the rate is exactly the given one";
}

TEST(Momentum, stable_step_is_the_bound_of_quadratics) {
  EXPECT_EQ(stable_step(0), 2);
  for (const int age : {1, 3, 7}) {
    EXPECT_LT(distance_after(0.97 * stable_step(age), 0, age), 1);
    EXPECT_GT(distance_after(1.03 * stable_step(age), 0, age), 1);
    for (const double momentum : {-0.7, 0.5, 0.9}) {
      EXPECT_LT(distance_after(0.67 * stable_step(age), momentum, age), 1) << age;
      EXPECT_GT(distance_after(1.33 * stable_step(age), momentum, age), 1) << age;
    }
  }
}

TEST(MomentumOfGroups, one_group_uses_what_was_tuned) {
  for (const auto compensation : {Compensation::off, Compensation::theory}) {
    const Momentum momentum = momentum_of_groups(compensation, 0.9, 1, true);
    EXPECT_EQ(momentum.explicit_part, 0.9);
    EXPECT_EQ(momentum.implicit_part, 0);
  }
}

TEST(MomentumOfGroups, merged_groups_use_what_was_tuned) {
  EXPECT_EQ(momentum_of_groups(Compensation::theory, 0.9, 4, false).explicit_part, 0.9);
}

TEST(MomentumOfGroups, off_says_what_asynchrony_adds) {
  const Momentum momentum = momentum_of_groups(Compensation::off, 0.9, 4, true);
  EXPECT_EQ(momentum.explicit_part, 0.9);
  EXPECT_EQ(momentum.implicit_part, 0.75);
  EXPECT_NEAR(momentum.total(), 0.975, 1e-12);
}

TEST(MomentumOfGroups, theory_keeps_the_total) {
  const Momentum momentum = momentum_of_groups(Compensation::theory, 0.9, 4, true);
  EXPECT_NEAR(momentum.explicit_part, 0.6, 1e-12);
  EXPECT_EQ(momentum.implicit_part, 0.75);
  EXPECT_NEAR(momentum.total(), 0.9, 1e-12);
}

}  // namespace
}  // namespace omni
