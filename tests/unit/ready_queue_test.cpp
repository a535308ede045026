#include "scheduling/policy/ready_queue.hpp"

#include <gtest/gtest.h>
#include <starpu.h>

#include <array>

namespace omni {
namespace {

class ReadyQueueTest : public testing::Test {
 protected:
  starpu_task* task(int number) { return &tasks_[static_cast<std::size_t>(number)]; }
  // Returns the number of the task that the worker gets, or -1 if it gets none.
  int pop(int worker, int refused = -1) {
    const auto got =
        queue_.pop(worker, [&](starpu_task* each) { return refused < 0 || each != task(refused); });
    return got ? static_cast<int>(got->task - tasks_.data()) : -1;
  }
  static bool all(starpu_task*) { return true; }
  std::array<starpu_task, 20> tasks_;
  ReadyQueue<starpu_task*> queue_;
};

TEST_F(ReadyQueueTest, empty) { EXPECT_EQ(pop(0), -1); }

TEST_F(ReadyQueueTest, priority_first_then_age) {
  queue_.push({task(0), -1}, -5);
  queue_.push({task(1), -1}, 7);
  queue_.push({task(2), -1}, 7);
  queue_.push({task(3), -1}, 0);
  EXPECT_EQ(pop(0), 1);
  EXPECT_EQ(pop(0), 2);
  EXPECT_EQ(pop(0), 3);
  EXPECT_EQ(pop(0), 0);
  EXPECT_EQ(pop(0), -1);
}

TEST_F(ReadyQueueTest, among_equals_the_one_that_this_worker_made_ready) {
  queue_.push({task(0), 0}, 1);
  queue_.push({task(1), 1}, 1);
  queue_.push({task(2), 1}, 0);
  EXPECT_EQ(pop(1), 1);
  EXPECT_EQ(pop(1), 0);  // priority counts more
  EXPECT_EQ(pop(1), 2);
}

TEST_F(ReadyQueueTest, what_cannot_run_here_is_left_for_others) {
  queue_.push({task(0), -1}, 2);
  queue_.push({task(1), -1}, 1);
  EXPECT_EQ(pop(0, /*refused=*/0), 1);
  EXPECT_EQ(pop(0, /*refused=*/0), -1);
  EXPECT_EQ(pop(0), 0);
}

TEST_F(ReadyQueueTest, many_refused_ones_do_not_hide_a_runnable_one) {
  for (int i = 0; i < 20; ++i) queue_.push({task(i), -1}, 0);
  const auto got = queue_.pop(0, [&](starpu_task* each) { return each == task(19); });
  ASSERT_TRUE(got);
  EXPECT_EQ(got->task, task(19));
}

// A worker that helps other workers takes the task that they would reach last. So the order of
// their tasks stays the same.
TEST_F(ReadyQueueTest, from_its_end_the_least_urgent_and_newest) {
  queue_.push({task(0), -1}, 1);
  queue_.push({task(1), -1}, 0);
  queue_.push({task(2), -1}, 0);
  const auto last = [&](int refused) {
    const auto got = queue_.pop_last(all, [&](starpu_task* each) { return each != task(refused); });
    return got ? static_cast<int>(got->task - tasks_.data()) : -1;
  };
  EXPECT_EQ(last(2), 1);
  EXPECT_EQ(last(19), 2);
  EXPECT_EQ(last(0), -1);
  EXPECT_EQ(last(1), 0);
  EXPECT_TRUE(queue_.empty());
}

TEST_F(ReadyQueueTest, others_get_the_first_that_is_more_urgent_than_their_own) {
  queue_.push({task(0), -1}, 1);
  queue_.push({task(1), -1}, 3);
  queue_.push({task(2), -1}, 2);
  EXPECT_EQ(queue_.highest_priority(), 3);
  const auto above = [&](int priority, int refused) {
    const auto got =
        queue_.pop_above(priority, all, [&](starpu_task* each) { return each != task(refused); });
    return got ? static_cast<int>(got->task - tasks_.data()) : -1;
  };
  EXPECT_EQ(above(3, 19), -1);
  EXPECT_EQ(above(1, 1), 2);
  EXPECT_EQ(above(1, 1), -1);
  EXPECT_EQ(above(1, 19), 1);
  EXPECT_EQ(above(1, 19), -1);
  EXPECT_EQ(above(0, 19), 0);
}

TEST_F(ReadyQueueTest, what_others_cannot_run_hides_nothing_from_them) {
  for (int i = 0; i < 20; ++i) queue_.push({task(i), -1}, 0);
  const auto only = [&](int number) {
    return [this, number](starpu_task* each) { return each == task(number); };
  };
  EXPECT_EQ(queue_.pop_last(only(0), all)->task, task(0));
  EXPECT_EQ(queue_.pop_above(-1, only(19), all)->task, task(19));
}

TEST_F(ReadyQueueTest, adds_up_the_lengths_of_what_runs_before) {
  queue_.push({task(0), -1, 3.0}, 0);
  queue_.push({task(1), -1, 0.5}, 2);
  EXPECT_EQ(queue_.length_before(-1), 3.5);
  EXPECT_EQ(queue_.length_before(0), 3.5);
  EXPECT_EQ(queue_.length_before(1), 0.5);
  EXPECT_EQ(queue_.length_before(3), 0);
  EXPECT_EQ(pop(0), 1);
  EXPECT_EQ(queue_.length_before(0), 3.0);
  EXPECT_EQ(pop(0), 0);
  EXPECT_EQ(queue_.length_before(0), 0);
  EXPECT_TRUE(queue_.empty());
}

}  // namespace
}  // namespace omni
