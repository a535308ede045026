// These tests check to which workers the dispatcher gives tasks whose times are known.
#include "scheduling/policy/dispatcher.hpp"

#include <gtest/gtest.h>

namespace omni {
namespace {

constexpr unsigned kCore = 0, kGpu = 1;  // types of workers, and their memories
constexpr int kAnyGroup = -1;

struct Work {
  int group;
  double on_core, on_gpu;
  double back_to_gpu = 0;  // what it updates, if a core does it
};

// Worker 0 belongs to group 0, worker 1 to group 1, and the GPU (worker 2) to both groups.
// Transfers to a worker take no time.
struct Facts {
  using Kind = WorkerKind<const Work*>;
  static constexpr double kMicrosecond = 1;
  int priority(const Work*) const { return 0; }
  BacklogForecast::Sort sort(const Work*) const { return {0, 0}; }
  bool holds_shared(const Work*) const { return false; }
  bool is_for(const Work* work, unsigned worker) const {
    return worker == 2 || work->group == kAnyGroup || static_cast<int>(worker) == work->group;
  }
  bool runs(const Work* work, unsigned worker) const { return is_for(work, worker); }
  std::optional<double> length(const Work* work, const Kind& kind) const {
    return kind.type == kCore ? work->on_core : work->on_gpu;
  }
  double guess(const Work* work, const Kind& kind) const { return *length(work, kind); }
  double transfer(const Work*, unsigned) const { return 0; }
  double back(const Work* work, unsigned node) const { return node == 0 ? work->back_to_gpu : 0; }
  void takes(const Work*, unsigned) const {}
};

class DispatcherTest : public testing::Test {
 protected:
  DispatcherTest() {
    dispatcher_.add_worker(0, kCore, 0);
    dispatcher_.add_worker(1, kCore, 0);
    dispatcher_.add_worker(2, kGpu, 1);
  }
  unsigned push(const Work& work) {
    const auto place = dispatcher_.place(&work, 0);
    dispatcher_.push(place, &work, -1);
    return place.kind->type;
  }
  // Gives the worker, a core, a task that cores finish before the GPU does.
  void occupy(unsigned worker, const Work& work) {
    ASSERT_EQ(push(work), kCore);
    ASSERT_TRUE(dispatcher_.pop(worker, 0));
  }
  Dispatcher<const Work*, Facts> dispatcher_{Facts{}, 0};
};

TEST_F(DispatcherTest, a_task_goes_where_it_is_finished_first) {
  const Work slow{kAnyGroup, 2, 1}, quick{kAnyGroup, 1, 1.5};
  EXPECT_EQ(push(slow), kGpu);
  EXPECT_EQ(push(quick), kCore);
}

// The GPU is busy for 100, and a core would finish each of the other tasks earlier. But a core's
// results must then travel to the GPU.
TEST_F(DispatcherTest, what_the_gpu_would_wait_for_is_for_the_gpu) {
  const Work backlog{kAnyGroup, 1e9, 100}, slow{kAnyGroup, 80, 8, 30}, quick{kAnyGroup, 60, 8, 30},
      small{kAnyGroup, 80, 8, 7};
  ASSERT_EQ(push(backlog), kGpu);
  ASSERT_TRUE(dispatcher_.pop(2, 0));
  EXPECT_EQ(push(slow), kGpu) << "back when the GPU has waited for it";
  ASSERT_TRUE(dispatcher_.pop(2, 0));
  EXPECT_EQ(push(quick), kCore) << "back in time";
  EXPECT_EQ(push(small), kCore) << "fetched in less time than it takes";
}

TEST_F(DispatcherTest, what_can_be_back_in_time_is_brought_back_at_once) {
  const Work backlog{kAnyGroup, 1e9, 100}, quick{kAnyGroup, 60, 8, 30}, small{kAnyGroup, 95, 8, 7};
  EXPECT_FALSE(dispatcher_.place(&small, 0).returns) << "the GPU does it";
  ASSERT_EQ(push(backlog), kGpu);
  EXPECT_TRUE(dispatcher_.place(&quick, 0).returns);
  EXPECT_FALSE(dispatcher_.place(&small, 0).returns) << "too late";
}

TEST_F(DispatcherTest, another_groups_idle_core_is_none) {
  const Work long_one{0, 10, 30}, of_the_same{0, 10, 15}, of_the_other{1, 10, 15};
  occupy(0, long_one);
  EXPECT_EQ(push(of_the_same), kGpu);
  EXPECT_EQ(push(of_the_other), kCore);
}

TEST_F(DispatcherTest, another_groups_backlog_does_not_make_an_idle_core_busy) {
  const Work first{0, 10, 300}, second{0, 10, 300}, third{0, 10, 300}, of_the_other{1, 10, 15};
  occupy(0, first);
  ASSERT_EQ(push(second), kCore);
  ASSERT_EQ(push(third), kCore);
  EXPECT_EQ(push(of_the_other), kCore);
}

TEST_F(DispatcherTest, tasks_of_all_groups_count_every_core) {
  const Work long_one{kAnyGroup, 10, 30}, another{kAnyGroup, 10, 15};
  occupy(0, long_one);
  EXPECT_EQ(push(another), kCore);
}

// The GPU takes 5 longer for every task than the models say. This shows only while the GPU has been
// given its next task early. A third of the tasks take 100 longer, for another reason.
TEST_F(DispatcherTest, what_cores_do_sooner_than_a_gpu_is_given_a_task_is_for_them) {
  const Work on_gpu{kAnyGroup, 1e9, 1}, small{kAnyGroup, 4, 1}, larger{kAnyGroup, 6, 5};
  const auto run_tasks = [&](int taken_early) {
    double now = 0;
    for (int i = 0; i < 300; ++i) {
      for (int taken = 0; taken <= taken_early; ++taken) {
        ASSERT_EQ(push(on_gpu), kGpu);
        ASSERT_TRUE(dispatcher_.pop(2, now));
      }
      for (int done = 0; done <= taken_early; ++done)
        dispatcher_.finished(2, now += 6 + (i % 3 == 0 ? 100 : 0));
    }
  };
  const auto goes_to = [&](const Work& work) {
    const unsigned type = push(work);
    const unsigned worker = type == kGpu ? 2 : 0;
    EXPECT_TRUE(dispatcher_.pop(worker, 0));
    dispatcher_.finished(worker, 0);
    return type;
  };
  run_tasks(0);
  EXPECT_EQ(goes_to(small), kGpu) << "nothing was taken early";
  run_tasks(1);
  EXPECT_EQ(goes_to(small), kCore);
  EXPECT_EQ(goes_to(larger), kGpu);
}

TEST_F(DispatcherTest, what_waits_for_one_that_has_left_is_for_others_until_it_is_back) {
  const Work work{kAnyGroup, 2, 1};
  const std::vector<const Work*> all{&work};
  ASSERT_EQ(push(work), kGpu);
  EXPECT_EQ(dispatcher_.regroup([](unsigned worker) { return worker != 2; }), all);
  EXPECT_EQ(dispatcher_.worker_count(), 2);
  EXPECT_EQ(push(work), kCore);

  EXPECT_EQ(dispatcher_.regroup([](unsigned) { return true; }), all);
  EXPECT_EQ(dispatcher_.worker_count(), 3);
  EXPECT_EQ(push(work), kGpu);
  EXPECT_TRUE(dispatcher_.pop(2, 0));
}

TEST_F(DispatcherTest, one_that_has_left_gets_nothing) {
  const Work work{kAnyGroup, 1, 2};
  dispatcher_.regroup([](unsigned worker) { return worker != 0; });
  ASSERT_EQ(push(work), kCore);
  EXPECT_FALSE(dispatcher_.pop(0, 0));
  EXPECT_TRUE(dispatcher_.pop(1, 0));
}

TEST_F(DispatcherTest, what_nobody_here_can_run_waits) {
  const Work work{kAnyGroup, 2, 1};
  EXPECT_TRUE(dispatcher_.regroup([](unsigned) { return false; }).empty());
  push(work);
  dispatcher_.add_worker(0, kCore, 0);
  EXPECT_EQ(dispatcher_.worker_count(), 1);
  EXPECT_TRUE(dispatcher_.pop(0, 0));
}

}  // namespace
}  // namespace omni
