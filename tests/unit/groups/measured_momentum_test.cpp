// Groups that really train tell the measured compensation where their updates led.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>

#include "codelets/elementwise/sample_values.hpp"
#include "runtime/tasks/session.hpp"
#include "runtime/tasks/task_errors.hpp"
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

// Momentum of a training, and what the control would have made of its staleness alone.
TEST_F(MeasuredMomentum, a_training_uses_the_path_of_its_parameters) {
  test::GroupTraining run(R"([net]
batch=6
height=8
width=8
channels=1
learning_rate=0.02
momentum=0.9
[convolutional]
filters=16
size=3
pad=1
activation=tanh
[connected]
output=3
activation=linear
[softmax]
)",
                          2);
  run.train(
      {.iterations = 1500, .asynchrony = Asynchrony::free, .compensation = Compensation::measured});
  MomentumControl by_staleness(Compensation::measured, static_cast<double>(0.9f), 2, true);
  std::deque<double> alone(8, by_staleness.next().implicit_part);
  int by_path = 0;
  for (const StepReport& report : run.reports) {
    // What it was when the update began, which is a few updates ago.
    const bool told_by_staleness = std::ranges::count(alone, report.momentum.implicit_part) > 0;
    if (report.iteration < 300)
      EXPECT_TRUE(told_by_staleness) << report.iteration << ": too few updates to tell more";
    else
      by_path += told_by_staleness ? 0 : 1;
    EXPECT_LE(report.momentum.explicit_part, report.momentum.tuned);
    by_staleness.observe(report.staleness, {});
    alone.pop_front();
    alone.push_back(by_staleness.next().implicit_part);
  }
  EXPECT_GT(by_path, 500);
}

}  // namespace
}  // namespace omni
