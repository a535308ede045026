// These tests check the forecast of the tasks that will follow the ready tasks.
#include "scheduling/policy/backlog_forecast.hpp"

#include <gtest/gtest.h>

namespace omni {
namespace {

const BacklogForecast::Sort kRoot{0, 1}, kLink{0, 2};

// Runs four chains of three tasks. The first task of each chain is ready at once.
void run_four_chains(BacklogForecast& backlog_forecast) {
  for (int chain = 1; chain <= 4; ++chain) backlog_forecast.note(kRoot, chain);
  for (int task = 0; task < 12; ++task) backlog_forecast.began(task % 3 == 0 ? kRoot : kLink, 1);
  backlog_forecast.ran_empty();
}

TEST(BacklogForecast, expects_what_came_the_last_times) {
  BacklogForecast backlog_forecast;
  EXPECT_EQ(backlog_forecast.expected(kRoot, 2), 2);  // nothing is known
  run_four_chains(backlog_forecast);
  // Ten tasks had begun when the last kRoot task began. The four kRoot tasks were noted with 1, 2,
  // 3 and 4 ready tasks.
  EXPECT_DOUBLE_EQ(backlog_forecast.expected(kRoot, 1), 4);
  EXPECT_DOUBLE_EQ(backlog_forecast.expected(kRoot, 4), 10) << "more than usual";
  EXPECT_EQ(backlog_forecast.expected(kRoot, 20), 20) << "less than is ready";
  EXPECT_EQ(backlog_forecast.expected(kLink, 2), 2) << "of another sort";
}

}  // namespace
}  // namespace omni
