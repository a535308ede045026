// Groups per device that are found while training: the rule on known curves, and a training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/tasks/session.hpp"
#include "scheduling/growing.hpp"
#include "scheduling/strategies/registry.hpp"
#include "tests/support/group_training.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

int settles_at(const std::vector<double>& throughput, int most) {
  GroupGrowth growth{.most = most};
  for (int tries = 0; !growth.settled && tries < 20; ++tries) {
    EXPECT_LE(growth.groups, most);
    growth.note(throughput.at(static_cast<std::size_t>(growth.groups - 1)));
  }
  EXPECT_TRUE(growth.settled);
  return growth.groups;
}

TEST(GroupGrowth, S13_ends_at_the_last_number_that_was_worth_it) {
  EXPECT_EQ(settles_at({100, 150, 180, 190}, 4), 3);
  EXPECT_EQ(settles_at({100, 105}, 4), 1);
  EXPECT_EQ(settles_at({100, 150, 180, 190}, 2), 2) << "memory for two";
  EXPECT_EQ(settles_at({100, 90}, 4), 1);
  EXPECT_EQ(settles_at({100}, 1), 1);
}

TEST(GrowingTraining, trains_to_its_end_and_says_what_it_found) {
  test::TemporaryDirectory folder;
  SessionOptions session_options;
  session_options.cpu_workers = 2;
  session_options.models = folder / "models";
  const auto session = Session::start(session_options);
  ASSERT_TRUE(session);
  const std::string cfg =
      "[net]\nbatch=4\nheight=6\nwidth=6\nchannels=1\nlearning_rate=0.05\n"
      "[connected]\noutput=3\nactivation=linear\n[softmax]\n";
  test::GroupTraining run(
      cfg, 6,
      Sharing{.replicas = true, .own_models = true, .fully_connected = FullyConnected::replicated},
      BuildOptions());
  std::vector<std::string> said;
  GrowingTraining training(run.groups, *run.feed, nullptr, {.seed = 1},
                           {.iterations = 2000, .strategy = (*find_strategy("sma"))->make({})}, {},
                           {2, 0}, false, [&](const std::string& line) { said.push_back(line); });
  ASSERT_TRUE(training.run());
  EXPECT_EQ(training.state().iteration, 2000u);
  ASSERT_FALSE(said.empty());
  EXPECT_THAT(said.front(), testing::StartsWith("groups: 2 train "));
  EXPECT_THAT(said.back(), testing::HasSubstr("are kept"));
  EXPECT_EQ(training.state().strategy.name, "sma");
}

}  // namespace
}  // namespace omni
