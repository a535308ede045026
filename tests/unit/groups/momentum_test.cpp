#include "scheduling/groups/momentum.hpp"

#include <gtest/gtest.h>

namespace omni {
namespace {

TEST(Momentum, implicit_part_of_groups_is_1_minus_1_over_g) {
  for (const int groups : {1, 2, 4, 8, 16, 32})
    EXPECT_DOUBLE_EQ(implicit_of_groups(groups), 1 - 1.0 / groups);
}

TEST(Momentum, compensation_keeps_the_total) {
  for (const double tuned : {0.5, 0.9, 0.99})
    for (const int groups : {1, 2, 4, 8, 16}) {
      const Momentum momentum = compensate(tuned, implicit_of_groups(groups));
      if (momentum.explicit_part > -0.7) {
        EXPECT_NEAR(momentum.total(), tuned, 1e-12);
      }
      EXPECT_LE(momentum.total(), 1);
      EXPECT_LE(momentum.explicit_part, tuned);
    }
}

TEST(Momentum, explicit_part_becomes_negative) {
  EXPECT_NEAR(compensate(0.9, implicit_of_groups(8)).explicit_part, 0.2, 1e-12);
  EXPECT_NEAR(compensate(0.9, implicit_of_groups(16)).explicit_part, -0.6, 1e-12);
  EXPECT_EQ(compensate(0.9, implicit_of_groups(64)).explicit_part, -0.7) << "not below";
  EXPECT_EQ(compensate(-0.8, implicit_of_groups(2)).explicit_part, -0.8) << "unless tuned there";
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
