// These tests check tensors that stay on a lone GPU between iterations. Other users of a tensor get
// the right values, and StarPU evicts no kept tensor.
#include "runtime/tasks/calls/kept_on_gpu.hpp"

#include <atomic>
#include <chrono>
#include <deque>
#include <semaphore>
#include <thread>

#include "runtime/tasks/calls/when_ready.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/tensor.hpp"
#include "tests/gpu/chain.hpp"
#include "tests/gpu/training.hpp"

namespace omni::test {
namespace {

class KeptOnGpuTest : public Chain {
 protected:
  static void iteration(const auto& submit) {
    const ChainScope chain(true, TaskChain::kWholeIteration);
    submit();
  }
  void fibonacci() {
    iteration([&] { submit_fibonacci(1); });
  }
  std::size_t kept_after(int fibonaccis) {
    for (int i = 0; i < fibonaccis; ++i) fibonacci();
    return KeptOnGpu::count();
  }
};

TEST_F(KeptOnGpuTest, keeps_what_chains_alone_use) {
  EXPECT_EQ(kept_after(1), 0u);
  EXPECT_EQ(kept_after(1), 2u);
  EXPECT_EQ(kept_after(3), 2u);
  Tensor other("other", kValues);
  ASSERT_TRUE(other.allocate());
  for (int i = 0; i < 2; ++i)
    iteration([&] {
      copy_values.submit({1}, {read(a_), write(other)});
      submit_fibonacci(1);
    });
  EXPECT_EQ(KeptOnGpu::count(), 3u);
  ASSERT_TRUE(wait_for_tasks());
  EXPECT_EQ(tasks_on_gpu(), 7);
  expect(a_, 610);
  expect(b_, 987);
  expect(other, 233);
}

// Kept tensors are given back when the host, a core, a smaller chain or a callback uses one of
// them.
TEST_F(KeptOnGpuTest, gives_back_when_others_use_it) {
  EXPECT_EQ(kept_after(2), 2u);
  expect(b_, 8);
  EXPECT_EQ(KeptOnGpu::count(), 0u) << "the host";
  EXPECT_EQ(kept_after(2), 2u);
  triple_on_cpu.submit({}, {read_write(a_)});  // 34 -> 102, 55
  EXPECT_EQ(KeptOnGpu::count(), 0u) << "a core";
  EXPECT_EQ(kept_after(2), 2u);  // 157, 212; 369, 581
  {
    const ChainScope chain;
    submit_fibonacci(1);  // 950, 1531
  }
  EXPECT_EQ(KeptOnGpu::count(), 0u) << "a chain of less";
  EXPECT_EQ(kept_after(2), 2u);  // 2481, 4012; 6493, 10505
  bool ready = false;
  when_ready(a_, [&] { ready = true; });
  EXPECT_EQ(KeptOnGpu::count(), 0u);
  ASSERT_TRUE(wait_for_tasks());
  EXPECT_TRUE(ready);
  expect(a_, 6493);
  expect(b_, 10505);
}

TEST_F(KeptOnGpuTest, gives_back_when_another_net_computes) {
  Tensor c("c", kValues), d("d", kValues);
  for (Tensor* tensor : {&c, &d}) ASSERT_TRUE(tensor->allocate());
  const auto add = [&] {
    iteration([&] { accumulate_sum.submit({kValues}, {accumulate(c), read(d)}); });
  };
  EXPECT_EQ(kept_after(3), 2u);
  add();
  EXPECT_EQ(KeptOnGpu::count(), 0u);
  add();
  EXPECT_EQ(KeptOnGpu::count(), 2u);
  ASSERT_TRUE(wait_for_tasks());
  expect(b_, 21);
}

TEST_F(KeptOnGpuTest, lets_chains_begin_to_write_what_they_read) {
  Tensor sum("sum", kValues);
  ASSERT_TRUE(sum.allocate());
  const auto add = [&] { accumulate_sum.submit({kValues}, {accumulate(sum), read(b_)}); };
  for (int i = 0; i < 3; ++i) iteration(add);
  EXPECT_EQ(KeptOnGpu::count(), 2u);
  for (int i = 0; i < 3; ++i)
    iteration([&] {
      add();
      accumulate_sum.submit({kValues}, {accumulate(b_), read(a_)});
    });
  EXPECT_EQ(KeptOnGpu::count(), 3u);
  ASSERT_TRUE(wait_for_tasks());
  expect(sum, 3 + 1 + 2 + 3);
  expect(b_, 4);
}

TEST_F(KeptOnGpuTest, keeps_what_each_chain_writes_first) {
  Tensor between("between", kValues);
  between.make_transient();
  ASSERT_TRUE(between.allocate());
  for (int i = 0; i < 4; ++i)
    iteration([&] {
      copy_values.submit({i}, {read(a_), write(between)});
      accumulate_sum.submit({kValues}, {accumulate(a_), read(between)});
    });
  EXPECT_EQ(KeptOnGpu::count(), 2u);
  expect(a_, 16);
  expect(between, 8);
}

TEST_F(KeptOnGpuTest, lets_a_tensor_end) {
  {
    Tensor sum("sum", kValues), more("more", kValues);
    for (Tensor* tensor : {&sum, &more}) ASSERT_TRUE(tensor->allocate());
    const auto add = [&] {
      iteration([&] {
        accumulate_sum.submit({kValues}, {accumulate(more), read(a_)});
        accumulate_sum.submit({kValues}, {accumulate(sum), read(more)});
        submit_fibonacci(1);
      });
    };
    for (int i = 0; i < 3; ++i) add();
    expect(sum, 1 + 3 + 8);
    for (int i = 0; i < 2; ++i) add();
    EXPECT_EQ(KeptOnGpu::count(), 4u);
  }
  EXPECT_EQ(kept_after(2), 2u);
  expect(b_, 987);
}

TEST_F(KeptOnGpuTest, gives_back_when_a_call_fails) {
  EXPECT_EQ(kept_after(3), 2u);
  iteration([&] {
    copy_values.submit({1, true}, {read(a_), write(b_)});
    submit_fibonacci(1);
  });
  triple_on_cpu.submit({}, {read_write(a_)});
  ASSERT_FALSE(wait_for_tasks());
  expect(a_, 13);
  clear_task_errors();
  EXPECT_EQ(kept_after(2), 2u);
  expect(b_, 21 + 34 + 34 + 55);  // of 13 and 21: 34, 55; 89, 144
}

// A GPU stream computes in the order of launches. The core's task takes long, so the first chain is
// ready after the second one. It must still be launched first.
TEST_F(KeptOnGpuTest, launches_in_the_order_of_submission) {
  Tensor late("late", kValues);
  ASSERT_TRUE(late.allocate());
  EXPECT_EQ(kept_after(3), 2u);
  for (int i = 0; i < 3; ++i) {
    triple_on_cpu.submit(
        {.before = [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }},
        {read_write(late)});
    iteration([&] {
      accumulate_sum.submit({kValues}, {accumulate(late), read(a_)});
      accumulate_sum.submit({kValues}, {accumulate(a_), read(b_)});
    });
    iteration([&] { accumulate_sum.submit({kValues}, {accumulate(b_), read(a_)}); });
  }
  expect(late, (13 * 3 + 34) * 3 + 89);
  expect(b_, 377);
}

std::counting_semaphore<> all_are_submitted{0}, next_is_launched{0};
std::atomic<bool> next_came{false};
constexpr std::chrono::seconds kLongestWait{20};

// The next chain is launched although another task, for example for later images, is already in the
// queue.
TEST_F(KeptOnGpuTest, launches_the_next_while_the_gpu_computes) {
  Tensor images("images", kValues), pixels("pixels", kValues);
  for (Tensor* tensor : {&images, &pixels}) ASSERT_TRUE(tensor->allocate());
  EXPECT_EQ(kept_after(3), 2u);
  iteration([&] {
    copy_values.submit(
        {.number = 1,
         .before = [] { all_are_submitted.try_acquire_for(kLongestWait); },
         .on_gpu = [] { next_came = next_is_launched.try_acquire_for(kLongestWait); }},
        {read(a_), write(b_)});
  });
  accumulate_sum.submit({kValues}, {accumulate(images), read(pixels)}, {.priority = 1});
  iteration([&] {
    copy_values.submit({.number = 2, .after = [] { next_is_launched.release(); }},
                       {read(b_), write(a_)});
  });
  all_are_submitted.release();
  ASSERT_TRUE(wait_for_tasks());
  EXPECT_TRUE(next_came);
}

class FullGpu : public KeptOnGpuTest {
 protected:
  FullGpu() { setenv("STARPU_LIMIT_CUDA_MEM", "64", 1); }  // MiB
  ~FullGpu() override { unsetenv("STARPU_LIMIT_CUDA_MEM"); }
};

TEST_F(FullGpu, loses_nothing_that_is_kept) {
  constexpr std::int64_t kMuch = 8 << 18;  // 8 MiB
  Tensor sum("sum", kMuch), one("one", kMuch);
  std::deque<Tensor> others;
  for (int i = 0; i < 12; ++i) others.emplace_back("other", kMuch);
  for (Tensor* tensor : {&sum, &one}) ASSERT_TRUE(tensor->allocate());
  for (Tensor& tensor : others) ASSERT_TRUE(tensor.allocate());
  std::ranges::fill(HostAccess(one, HostAccess::Mode::write).f32(), 1.0f);
  const auto add = [&] {
    iteration([&] { accumulate_sum.submit({kMuch}, {accumulate(sum), read(one)}); });
  };
  for (int i = 0; i < 3; ++i) {
    for (int more = 0; more < 2; ++more) add();
    EXPECT_EQ(KeptOnGpu::count(), 2u);
    for (std::size_t other = 1; other < others.size(); ++other)
      accumulate_sum.submit({kMuch}, {accumulate(others[other]), read(others[0])});
    ASSERT_TRUE(wait_for_tasks());
    add();
  }
  EXPECT_EQ(KeptOnGpu::count(), 2u);
  for (const float value : HostAccess(sum, HostAccess::Mode::read).f32()) ASSERT_EQ(value, 9);
}

class KeptInTraining : public Training {
 protected:
  // Three steps are an epoch, so the net is tested every three steps.
  Finished train(const std::string& run, Words more) const {
    Words arguments{"--net",
                    mixed(),
                    "--data",
                    "synthetic:24:10",
                    "--slice",
                    "8",
                    "--gpus",
                    "0",
                    "--display",
                    "1",
                    "-q",
                    "--deterministic",
                    "--metrics",
                    folder_ / (run + ".jsonl"),
                    "--out",
                    folder_ / run,
                    "--save-weights",
                    folder_ / (run + ".weights")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished finished = omni_run(arguments);
    EXPECT_EQ(finished.exit_code, 0) << finished.errors;
    return finished;
  }
  std::string weights(const std::string& run) const { return get(folder_ / (run + ".weights")); }
};

// With two workers per GPU no tensors are kept on it.
TEST_F(KeptInTraining, leaves_the_bits) {
  const Words steps{"--max-batches", "14", "--checkpoint-every", "4"};
  train("kept", steps);
  for (const char* until : {"5", "14"})
    train("resumed", {"--max-batches", until, "--checkpoint-every", "4", "--resume", "auto"});
  setenv("STARPU_NWORKER_PER_CUDA", "2", 1);
  train("apart", steps);
  unsetenv("STARPU_NWORKER_PER_CUDA");
  EXPECT_FALSE(weights("apart").empty());
  EXPECT_EQ(weights("kept"), weights("apart"));
  EXPECT_EQ(weights("resumed"), weights("apart"));
}

// StarPU's statistics count the data of tasks that are found on the GPU. An iteration declares at
// most 10.
TEST_F(KeptInTraining, declares_few_data_for_an_iteration) {
  setenv("STARPU_ENABLE_STATS", "1", 1);
  setenv("STARPU_STATS", "1", 1);
  const auto found_on_gpu = [&](const char* steps) {
    const Finished run = train(steps, {"--no-test", "--max-batches", steps});
    const std::size_t at = run.errors.find("memory node CUDA");
    EXPECT_NE(at, std::string::npos) << run.errors;
    return number_after(run.errors.substr(std::min(at, run.errors.size())), "hit :");
  };
  const int few = found_on_gpu("10"), more = found_on_gpu("30");
  EXPECT_GT(more, few);
  EXPECT_LE(more - few, 20 * 10);
  unsetenv("STARPU_ENABLE_STATS");
  unsetenv("STARPU_STATS");
}

}  // namespace
}  // namespace omni::test
