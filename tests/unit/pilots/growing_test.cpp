// These tests check how the number of groups per device grows during a training: its rule on known
// throughputs, and in a training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduling/checkpoint/training_checkpoint.hpp"
#include "scheduling/pilots/growing.hpp"
#include "scheduling/strategies/registry.hpp"
#include "tests/support/group_training.hpp"
#include "tests/support/net_text.hpp"
#include "tests/support/with_session.hpp"

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

class GrowingTest : public test::WithSession {
 protected:
  GrowingTest() : WithSession(test::with_workers(2)) {}
  static std::unique_ptr<test::GroupTraining> make(int groups) {
    return std::make_unique<test::GroupTraining>(
        test::net(4, {6, 6, 1}, "learning_rate=0.05\n") + test::connected(3) +
            test::layer("softmax"),
        groups,
        Sharing{
            .replicas = true, .own_models = true, .fully_connected = FullyConnected::replicated},
        BuildOptions());
  }
  Status train(test::GroupTraining& run, TrainingState state, Workers workers, int least = 2,
               std::uint64_t until = UINT64_MAX) {
    said_.clear();
    Growing growing(workers, least);
    test::StopAt stop(until);
    Trainer training(run.groups, *run.feed, nullptr, std::move(state),
                     {.iterations = 2000,
                      .strategy = make_strategy(**find_strategy("sma"), {}),
                      .use_groups =
                          [&](int count) {
                            run.groups.use(count, workers);
                            return Status();
                          }},
                     {.say = [this](const std::string& line) { said_.push_back(line); }},
                     {&growing, &stop});
    Status trained = training.run();
    state_ = training.state();
    return trained;
  }
  std::vector<std::string> said_;
  TrainingState state_;
};

TEST_F(GrowingTest, trains_to_its_end_and_says_what_it_found) {
  const auto run = make(6);
  ASSERT_TRUE(train(*run, {.seed = 1}, {2, 0}));
  EXPECT_EQ(state_.iteration, 2000u);
  ASSERT_FALSE(said_.empty());
  EXPECT_THAT(said_.front(), testing::StartsWith("groups: 2 train "));
  EXPECT_THAT(said_.back(), testing::HasSubstr("are kept"));
  EXPECT_EQ(state_.strategy.name, "sma");
}

// With one group, model averaging would have only one model to average.
TEST_F(GrowingTest, one_device_begins_with_two_groups) {
  ASSERT_TRUE(train(*make(4), {.seed = 1}, {1, 0}));
  EXPECT_THAT(said_.front(), testing::StartsWith("groups: 2 train "));
}

TEST_F(GrowingTest, more_devices_than_groups_are_told_as_groups) {
  ASSERT_TRUE(train(*make(1), {.seed = 1}, {2, 0}, 1));
  EXPECT_THAT(said_.back(), testing::HasSubstr("; 1 are kept"));
}

TEST_F(GrowingTest, a_resumed_training_goes_on_growing_until_it_has_settled) {
  const auto run = make(4);
  const Status stopped = train(*run, {.seed = 1}, {1, 0}, 2, 10);
  ASSERT_FALSE(stopped);
  EXPECT_TRUE(said_.empty());
  std::filesystem::create_directory(folder_ / "run");
  auto store = CheckpointStore::open(folder_ / "run", {});
  ASSERT_TRUE(store) << store.error().message();
  const auto saved_and_read = [&] {
    const auto path = save_training(*store, run->groups, state_, {});
    EXPECT_TRUE(path) << path.error().message();
    return *restore_training(run->groups, *load_checkpoint(*path), "", "sma");
  };
  ASSERT_TRUE(train(*run, saved_and_read(), {1, 0}));
  ASSERT_FALSE(said_.empty());
  EXPECT_THAT(said_.front(), testing::StartsWith("groups: 2 train "));
  EXPECT_THAT(said_.back(), testing::HasSubstr("are kept"));
  const int kept = run->groups.count();
  TrainingState settled = saved_and_read();
  settled.iteration -= 100;
  settled.samples -= 400;
  ASSERT_TRUE(train(*run, settled, {1, 0}));
  EXPECT_TRUE(said_.empty());
  EXPECT_EQ(run->groups.count(), kept);
}

}  // namespace
}  // namespace omni
