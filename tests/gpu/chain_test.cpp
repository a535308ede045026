// A chain is a StarPU task with several calls of a lone GPU. These tests check that results are as
// with separate tasks, in the order of submission.
#include "tests/gpu/chain.hpp"

#include <chrono>
#include <map>
#include <semaphore>
#include <thread>

#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/task_times.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

TEST_F(Chain, is_one_task) {
  {
    const ChainScope chain;
    submit_fibonacci(6);
  }
  ASSERT_TRUE(wait_for_tasks());
  EXPECT_EQ(tasks_on_gpu(), 1);
  expect(a_, 233);
  expect(b_, 377);
}

TEST_F(Chain, is_none_without_a_scope_or_where_it_is_not_wanted) {
  submit_fibonacci(3);
  {
    const ChainScope chain(false);
    submit_fibonacci(3);
  }
  ASSERT_TRUE(wait_for_tasks());
  EXPECT_EQ(tasks_on_gpu(), 12);
  expect(b_, 377);
}

TEST_F(Chain, ends_when_it_is_long) {
  constexpr int kMost = TaskChain::kMostCalls;
  {
    const ChainScope chain;
    for (int i = 0; i < kMost + 1; ++i)
      accumulate_sum.submit({kValues}, {accumulate(a_), read(b_)});
  }
  ASSERT_TRUE(wait_for_tasks());
  EXPECT_EQ(tasks_on_gpu(), 2);
  expect(a_, kMost + 2);
}

// Algorithms are only tried where this does not falsify a time.
TEST_F(Chain, has_calls_whose_time_counts_only_if_it_is_recorded) {
  static std::vector<bool> counts;
  counts.clear();
  const auto submit = [&](bool in_chain) {
    {
      const ChainScope chain(in_chain);
      StepArgs args;
      args.before = [] { counts.push_back(time_counts()); };
      copy_values.submit(args, {read(a_), write(b_)});
    }
    EXPECT_TRUE(wait_for_tasks());
  };
  submit(false);
  submit(true);
  task_times.start();
  submit(true);
  task_times.finish();
  submit(true);
  EXPECT_EQ(counts, (std::vector{true, false, true, false}));
  EXPECT_FALSE(time_counts());
}

TEST_F(Chain, an_outer_scope_goes_on) {
  {
    const ChainScope outer;
    submit_fibonacci(2);
    {
      const ChainScope inner;
      submit_fibonacci(2);
    }
    submit_fibonacci(2);
  }
  ASSERT_TRUE(wait_for_tasks());
  EXPECT_EQ(tasks_on_gpu(), 1);
  expect(b_, 377);
}

TEST_F(Chain, a_task_for_a_cpu_comes_in_between) {
  {
    const ChainScope chain;
    accumulate_sum.submit({kValues}, {accumulate(a_), read(b_)});  // 2, 1
    triple_on_cpu.submit({}, {read_write(a_)});
    accumulate_sum.submit({kValues}, {accumulate(b_), read(a_)});  // 6, 7
    accumulate_sum.submit({kValues}, {accumulate(a_), read(b_)});  // 13, 7
  }
  ASSERT_TRUE(wait_for_tasks());
  EXPECT_EQ(tasks_on_gpu(), 2);
  expect(a_, 13);
  expect(b_, 7);
}

TEST_F(Chain, needs_no_value_of_what_it_writes_first) {
  Tensor between("between", kValues);
  between.make_transient();
  ASSERT_TRUE(between.allocate());
  accumulate_sum.submit({kValues}, {accumulate(a_), read(b_)});
  {
    const ChainScope chain;
    copy_values.submit({1}, {read(a_), write(between)});
    accumulate_sum.submit({kValues}, {accumulate(between), read(a_)});
    copy_values.submit({2}, {read(between), write(b_)});
  }
  ASSERT_TRUE(wait_for_tasks());
  EXPECT_EQ(tasks_on_gpu(), 2);
  expect(b_, 4);
  EXPECT_EQ(log, (std::vector<std::string>{"begun 1", "begun 2", "done 1", "done 2"}));
}

TEST_F(Chain, ends_with_the_call_that_fails) {
  {
    const ChainScope chain;
    accumulate_sum.submit({kValues}, {accumulate(a_), read(b_)});
    copy_values.submit({1, true}, {read(a_), write(b_)});
    copy_values.submit({2}, {read(a_), write(b_)});
  }
  const Status status = wait_for_tasks();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::device);
  EXPECT_NE(status.error().message().find("test_copy"), std::string::npos);
  // After a failure, every call is still reported as done, so that no thread waits for ever.
  EXPECT_EQ(log, (std::vector<std::string>{"begun 1", "done 1", "done 2"}));
}

TEST_F(Chain, that_fails_lets_nothing_compute_behind_it) {
  {
    const ChainScope chain;
    copy_values.submit({1, true}, {read(a_), write(b_)}, {.layer = 3, .slice = 2});
  }
  triple_on_cpu.submit({}, {read_write(b_)});
  {
    const ChainScope chain;
    copy_values.submit({2}, {read(b_), write(a_)});
  }
  const Status status = wait_for_tasks();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message(),
            "codelet test_copy (cuda), layer 3, slice 2: as it was told to (an earlier operation "
            "may be at fault: CUDA_LAUNCH_BLOCKING=1 names the right one)");
  EXPECT_EQ(log, (std::vector<std::string>{"begun 1", "done 1", "done 2"}));
  expect(a_, 1);
  clear_task_errors();
  triple_on_cpu.submit({}, {read_write(a_)});
  ASSERT_TRUE(wait_for_tasks());
  expect(a_, 3);
}

// Computed holds when a call of a chain began and ended to compute, in nanoseconds.
struct Computed {
  std::int64_t from, to;
};
std::vector<Computed> computed_in(const std::string& trace) {
  std::map<int, Computed> by_task;
  for (const auto& line : read_metrics(trace + "/rank-0.jsonl"))
    if (line.contains("times")) by_task[line["task"]] = {line["times"][6], line["times"][7]};
  std::vector<Computed> computed;
  for (const auto& [task, when] : by_task) computed.push_back(when);
  return computed;
}

constexpr std::chrono::milliseconds kLate{50};

// Waits until the GPU has done all that was launched, and leaves it idle for kLate.
void let_gpu_wait() {
  check(cudaStreamSynchronize(CudaWorker::current().stream()), "waiting for the GPU");
  std::this_thread::sleep_for(kLate);
}

// With some tools a launch waits until the GPU is idle. The last launch would then never come, so
// the test fails after kPatience.
std::counting_semaphore<> gpu_computes{0}, last_is_launched{0};
constexpr std::chrono::seconds kPatience{20};

// The time in which the GPU is idle, because the host launches late, does not count as computing.
// If the GPU computes meanwhile, the time counts.
TEST_F(Chain, waits_for_a_host_that_is_late) {
  const std::int64_t late = std::chrono::nanoseconds(kLate).count();
  const std::string trace = folder_ / "trace";
  {
    const auto recorder = Recorder::start(trace, {});
    ASSERT_TRUE(recorder) << recorder.error().message();
    {
      const ChainScope chain;
      copy_values.submit({.number = 1}, {read(a_), write(b_)});
      copy_values.submit({.number = 2, .before = let_gpu_wait}, {read(b_), write(a_)});
      copy_values.submit({.number = 3, .after = let_gpu_wait}, {read(a_), write(b_)});
      copy_values.submit({.number = 4,
                          .on_gpu =
                              [] {
                                gpu_computes.release();
                                last_is_launched.try_acquire_for(kPatience);
                              }},
                         {read(b_), write(a_)});
      copy_values.submit({.number = 5,
                          .before =
                              [] {
                                gpu_computes.try_acquire_for(kPatience);
                                std::this_thread::sleep_for(kLate);
                              },
                          .after = [] { last_is_launched.release(); }},
                         {read(a_), write(b_)});
    }
    ASSERT_TRUE(wait_for_tasks());
  }
  const std::vector<Computed> computed = computed_in(trace);
  ASSERT_EQ(computed.size(), 5u);
  EXPECT_GE(computed[1].from - computed[0].to, late) << "launched late";
  // The end of a call is marked after the host has slept, so its time includes the sleep.
  EXPECT_GE(computed[2].to - computed[2].from, late) << "launched in time";
  EXPECT_GE(computed[3].to - computed[3].from, late) << "waits for what is launched behind it";
  EXPECT_EQ(computed[4].from, computed[3].to) << "as late, but the GPU had something to do";
}

// Two workers share the calls that both may run. Calls that only one worker may run form a chain.
TEST(ChainOfTwoWorkers, is_of_one) {
  setenv("STARPU_NWORKER_PER_CUDA", "2", 1);
  SessionOptions options;
  options.cpu_workers = 1;
  options.gpus = {0};
  options.gpus_alone = true;
  {
    const auto session = Session::start(options);
    ASSERT_TRUE(session) << session.error().message();
    const int one = starpu_worker_get_by_type(STARPU_CUDA_WORKER, 0),
              other = starpu_worker_get_by_type(STARPU_CUDA_WORKER, 1),
              core = starpu_worker_get_by_type(STARPU_CPU_WORKER, 0);
    const auto chains_for = [](const WorkerSet* workers) {
      const SubmissionScope scope({.workers = workers});
      const ChainScope chain;
      return TaskChain::open() != nullptr;
    };
    const WorkerSet second({other}), with_core({one, core}), both({one, other}), cores({core});
    EXPECT_TRUE(chains_for(&second));
    EXPECT_TRUE(chains_for(&with_core));
    EXPECT_FALSE(chains_for(&both));
    EXPECT_FALSE(chains_for(&cores));
    EXPECT_FALSE(chains_for(nullptr));
  }
  unsetenv("STARPU_NWORKER_PER_CUDA");
}

}  // namespace
}  // namespace omni::test
