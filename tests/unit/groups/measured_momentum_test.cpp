// Groups that really train tell the measured compensation where their updates led.
#include <gtest/gtest.h>

#include <numeric>

#include "codelets/elementwise/sample_values.hpp"
#include "runtime/tasks/session.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "scheduling/groups/group_run.hpp"
#include "tests/support/group_training.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

class MeasuredMomentum : public testing::Test {
 protected:
  MeasuredMomentum() : session_(start()) {}

  Result<Session> start() {
    SessionOptions options;
    options.cpu_workers = 2;
    options.models = folder_ / "models";
    return Session::start(options);
  }

  const test::TemporaryDirectory folder_;
  const Result<Session> session_;
};

TEST_F(MeasuredMomentum, a_sample_is_spread_over_the_first_part) {
  Tensor tensor("t", 20);
  tensor.cut(11);
  ASSERT_TRUE(tensor.allocate());
  {
    const HostAccess access(tensor, HostAccess::Mode::write);
    std::iota(access.f32().begin(), access.f32().end(), 0.0f);
  }
  std::vector<float> few(sample_size(tensor, 4)), all(sample_size(tensor, 100));
  UpdateReport report;
  report.left = 2;
  int done = 0;
  report.argument = &done;
  report.done = [](UpdateReport&, void* argument) { ++*static_cast<int*>(argument); };
  submit_sample(tensor, few, report);
  submit_sample(tensor, all, report);
  ASSERT_TRUE(wait_for_tasks());
  EXPECT_EQ(few, (std::vector<float>{0, 2, 4, 6}));
  EXPECT_EQ(all, (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(done, 1);
}

constexpr const char* kNet = R"([net]
batch=6
height=8
width=8
channels=1
learning_rate=0.002
momentum=0.9
[convolutional]
filters=32
size=5
pad=1
activation=tanh
[connected]
output=3
activation=linear
[softmax]
)";

TEST_F(MeasuredMomentum, every_update_tells_where_it_led_and_from_where) {
  constexpr std::uint64_t kUpdates = 40;
  test::GroupTraining training(kNet, 2);
  TrainingFeed feed(*training.feed, 1, 0, kUpdates);
  EventQueue events;
  GroupRun first(training.groups, 0, feed, events, false),
      second(training.groups, 1, feed, events, false);
  const auto watched = training.groups.watched();
  ASSERT_TRUE(watched);
  const Tensor& master = *training.groups.net().params()[*watched]->master;
  const auto rate_of = [](std::uint64_t number) { return 0.001f * static_cast<float>(1 + number); };

  std::vector<std::vector<float>> path;  // of the master, by the number of the update
  path.push_back(test::values(master));
  std::vector<PathPoint> points;
  for (std::uint64_t number = 0; number < kUpdates; ++number) {
    // Two rounds of one group, then one of the other: gradients are 0, 1 and 2 updates old.
    GroupRun& run = number % 3 == 2 ? second : first;
    run.begin(number, false);
    ASSERT_TRUE(run.complete({.learning_rate = rate_of(number),
                              .momentum = {0.9, 0.5, 0.5},
                              .order = ExchangeOrder::arrival,
                              .tells_path = true}));
    const auto event = events.wait(std::chrono::seconds(60));
    ASSERT_TRUE(event);
    const auto finished = run.collect();
    ASSERT_TRUE(finished);
    path.push_back(test::values(master));
    points.push_back(finished->path);
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    const PathPoint& point = points[i];
    EXPECT_EQ(point.number, static_cast<std::int64_t>(i + 1));
    // A replica is from its group's own last update.
    const std::size_t own = i % 3 == 2 ? (i < 3 ? 0 : i - 2) : i % 3 == 1 ? i : i < 2 ? 0 : i - 1;
    EXPECT_EQ(point.seen, static_cast<std::int64_t>(own)) << "update " << i + 1;
    EXPECT_EQ(point.learning_rate, rate_of(i));
    EXPECT_EQ(point.momentum, 0.5f);
    EXPECT_EQ(point.values, path[i + 1]);
  }
}

TEST_F(MeasuredMomentum, the_path_tells_when_there_is_enough_of_it) {
  test::GroupTraining run(kNet, 2);
  run.train(
      {.iterations = 900, .asynchrony = Asynchrony::free, .compensation = Compensation::measured});
  EXPECT_FALSE(run.reports[100].momentum_by_path) << "too few updates tell nothing";
  const auto told = run.reports.back().momentum_by_path;
  ASSERT_TRUE(told);
  // How much so few updates tell depends on how busy the machine is; what many tell is tested with
  // noisy quadratics. Momentum is from 0 to 1, whatever the order in which the groups came.
  EXPECT_GT(told->value + 4 * told->error, 0);
  EXPECT_LT(told->value - 4 * told->error, 1);
}

}  // namespace
}  // namespace omni
