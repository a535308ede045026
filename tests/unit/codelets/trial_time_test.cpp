// These tests check how long algorithms may be tried: some seconds at the start, then a share of
// the time that passes.
#include "codelets/cuda/trial_time.hpp"

#include <gtest/gtest.h>

namespace omni {
namespace {

class TrialTimeTest : public testing::Test {
 protected:
  using Clock = TrialTime::Clock;

  static Clock::time_point at(double seconds) {
    return Clock::time_point() +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
};

TEST_F(TrialTimeTest, ends_at_the_start_and_comes_back_with_the_training) {
  TrialTime time(10, 0.1);
  EXPECT_TRUE(time.left(at(1000)));  // the first trial starts the clock
  time.spend(at(1000), at(1004));
  EXPECT_TRUE(time.left(at(1004)));
  time.spend(at(1004), at(1010.5));
  EXPECT_FALSE(time.left(at(1010.5)));
  EXPECT_FALSE(time.left(at(1015)));  // 10.5 are spent; 10, and a tenth of 4.5, were allowed
  EXPECT_TRUE(time.left(at(1016)));
  time.spend(at(1016), at(1017));
  EXPECT_FALSE(time.left(at(1017)));
  EXPECT_FALSE(time.left(at(1026)));
  EXPECT_TRUE(time.left(at(1027)));
}

TEST_F(TrialTimeTest, all_ranks_together_have_one_share) {
  TrialTime time(0, 0.1);
  time.spend(at(0), at(1));
  EXPECT_TRUE(time.left(at(12), 1));
  EXPECT_FALSE(time.left(at(12), 4));
  EXPECT_FALSE(time.left(at(40), 4));
  EXPECT_TRUE(time.left(at(42), 4));
}

TEST_F(TrialTimeTest, is_limited_again_when_what_lifted_it_ends) {
  TrialTime& time = TrialTime::of_process();
  time.set(0, 0);
  time.spend(at(0), at(1));
  {
    const TrialTime::Lifted one;
    { const TrialTime::Lifted other; }
    EXPECT_TRUE(time.left(at(2)));
  }
  EXPECT_FALSE(time.lifted());
  EXPECT_FALSE(time.left(at(2)));
  time.set(10, 0.1);
}

TEST_F(TrialTimeTest, is_without_limit_when_lifted_until_it_is_set) {
  TrialTime time(1, 0);
  time.spend(at(0), at(5));
  EXPECT_FALSE(time.left(at(1000)));
  time.lift();
  EXPECT_TRUE(time.lifted());
  EXPECT_TRUE(time.left(at(5)));
  time.set(3, 0);
  EXPECT_FALSE(time.lifted());
  time.spend(at(0), at(2));
  EXPECT_TRUE(time.left(at(2)));
  time.spend(at(2), at(4));
  EXPECT_FALSE(time.left(at(9)));
}

}  // namespace
}  // namespace omni
