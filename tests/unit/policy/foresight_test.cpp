// What the policy learns about the work that ready tasks are only the beginning of.
#include "scheduling/policy/foresight.hpp"

#include <gtest/gtest.h>

namespace omni {
namespace {

const Foresight::Sort kRoot{0, 1}, kLink{0, 2};

// Four chains of three tasks, of which the first tasks are ready at once.
void run_four_chains(Foresight& foresight) {
  for (int chain = 1; chain <= 4; ++chain) foresight.note(kRoot, chain);
  for (int task = 0; task < 12; ++task) foresight.began(task % 3 == 0 ? kRoot : kLink, 1);
  foresight.ran_empty();
}

TEST(Foresight, expects_what_came_the_last_times) {
  Foresight foresight;
  EXPECT_EQ(foresight.expected(kRoot, 2), 2);  // nothing is known
  run_four_chains(foresight);
  // 10 began until the last of its sort had; 1 + 2 + 3 + 4 were ready.
  EXPECT_DOUBLE_EQ(foresight.expected(kRoot, 1), 4);
  EXPECT_DOUBLE_EQ(foresight.expected(kRoot, 4), 10) << "more than usual";
  EXPECT_EQ(foresight.expected(kRoot, 20), 20) << "less than is ready";
  EXPECT_EQ(foresight.expected(kLink, 2), 2) << "of another sort";
}

}  // namespace
}  // namespace omni
