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

TEST(MomentumControl, one_group_uses_what_was_tuned) {
  for (const auto compensation :
       {Compensation::off, Compensation::theory, Compensation::measured}) {
    const Momentum momentum = MomentumControl(compensation, 0.9, 1, true).next();
    EXPECT_EQ(momentum.explicit_part, 0.9);
    EXPECT_EQ(momentum.implicit_part, 0);
  }
}

TEST(MomentumControl, merged_groups_use_what_was_tuned) {
  EXPECT_EQ(MomentumControl(Compensation::theory, 0.9, 4, false).next().explicit_part, 0.9);
}

TEST(MomentumControl, off_says_what_asynchrony_adds) {
  const Momentum momentum = MomentumControl(Compensation::off, 0.9, 4, true).next();
  EXPECT_EQ(momentum.explicit_part, 0.9);
  EXPECT_EQ(momentum.implicit_part, 0.75);
  EXPECT_NEAR(momentum.total(), 0.975, 1e-12);
}

TEST(MomentumControl, measured_starts_at_the_theory_and_follows_the_staleness) {
  MomentumControl control(Compensation::measured, 0.9, 4, true);
  MomentumControl theory(Compensation::theory, 0.9, 4, true);
  EXPECT_NEAR(control.next().implicit_part, 0.75, 1e-12);
  EXPECT_NEAR(control.next().explicit_part, 0.6, 1e-12);
  for (int update = 0; update < 3000; ++update)
    for (MomentumControl* each : {&control, &theory}) each->observe(1, {});
  EXPECT_NEAR(control.next().implicit_part, 0.5, 1e-6);
  EXPECT_NEAR(control.next().explicit_part, 0.8, 1e-6);
  EXPECT_NEAR(theory.next().implicit_part, 0.75, 1e-12);
}

}  // namespace
}  // namespace omni
