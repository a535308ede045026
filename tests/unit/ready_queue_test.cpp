#include "scheduling/policy/ready_queue.hpp"

#include <gtest/gtest.h>
#include <starpu.h>

#include <array>

namespace omni {
namespace {

class ReadyQueueTest : public testing::Test {
 protected:
  starpu_task* task(int number) { return &tasks_[static_cast<std::size_t>(number)]; }
  // The number of the task that the worker gets; -1: none.
  int pop(int worker, int refused = -1) {
    const starpu_task* got =
        queue_.pop(worker, [&](starpu_task* each) { return refused < 0 || each != task(refused); });
    return got == nullptr ? -1 : static_cast<int>(got - tasks_.data());
  }
  std::array<starpu_task, 20> tasks_;
  ReadyQueue queue_;
};

TEST_F(ReadyQueueTest, empty) { EXPECT_EQ(pop(0), -1); }

TEST_F(ReadyQueueTest, priority_first_then_age) {
  queue_.push(task(0), -5, -1);
  queue_.push(task(1), 7, -1);
  queue_.push(task(2), 7, -1);
  queue_.push(task(3), 0, -1);
  EXPECT_EQ(pop(0), 1);
  EXPECT_EQ(pop(0), 2);
  EXPECT_EQ(pop(0), 3);
  EXPECT_EQ(pop(0), 0);
  EXPECT_EQ(pop(0), -1);
}

TEST_F(ReadyQueueTest, among_equals_the_one_that_this_worker_made_ready) {
  queue_.push(task(0), 1, 0);
  queue_.push(task(1), 1, 1);
  queue_.push(task(2), 0, 1);
  EXPECT_EQ(pop(1), 1);
  EXPECT_EQ(pop(1), 0);  // priority counts more
  EXPECT_EQ(pop(1), 2);
}

TEST_F(ReadyQueueTest, what_cannot_run_here_is_left_for_others) {
  queue_.push(task(0), 2, -1);
  queue_.push(task(1), 1, -1);
  EXPECT_EQ(pop(0, /*refused=*/0), 1);
  EXPECT_EQ(pop(0, /*refused=*/0), -1);
  EXPECT_EQ(pop(0), 0);
}

TEST_F(ReadyQueueTest, many_refused_ones_do_not_hide_a_runnable_one) {
  for (int i = 0; i < 20; ++i) queue_.push(task(i), 0, -1);
  const starpu_task* got = queue_.pop(0, [&](starpu_task* each) { return each == task(19); });
  EXPECT_EQ(got, task(19));
}

}  // namespace
}  // namespace omni
