// Groups that really train tell the measured compensation where their updates led.
#include <gtest/gtest.h>

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

TEST_F(MeasuredMomentum, a_training_tells_the_path_of_its_parameters) {
  test::GroupTraining run(R"([net]
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
)",
                          2);
  run.train(
      {.iterations = 900, .asynchrony = Asynchrony::free, .compensation = Compensation::measured});
  EXPECT_FALSE(run.reports[100].momentum_by_path) << "too few updates tell nothing";
  const auto told = run.reports.back().momentum_by_path;
  ASSERT_TRUE(told);
  // As far as so few updates can tell; the theory says 0.5, and less where groups take turns.
  EXPECT_GT(told->value, -0.3);
  EXPECT_LT(told->value, 0.8);
  EXPECT_LT(told->error, 0.4);
}

}  // namespace
}  // namespace omni
