// Tests of chains use one GPU with two tensors and with codelets that can be told to fail. A log
// holds what the host was told.
#pragma once

#include <gtest/gtest.h>
#include <starpu.h>
#include <starpu_profiling.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "codelets/elementwise/accumulate.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/cuda/first_launch.hpp"
#include "runtime/cuda/worker.hpp"
#include "runtime/tasks/calls/task_chain.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/session.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {

inline constexpr std::int64_t kValues = 100;

struct StepArgs {
  int number = 0;
  bool fails = false;
  // A test can add work: on the host before the launch, on the GPU, and on the host after the
  // launch.
  void (*before)() = [] {}, (*on_gpu)() = nullptr, (*after)() = [] {};
};

inline std::mutex mutex;
inline std::vector<std::string> log;  // of what the host was told
inline void note(const char* what, const StepArgs& args) {
  const std::lock_guard lock(mutex);
  log.push_back(what + std::to_string(args.number));
}

inline void copy_on_cpu(const StepArgs&, const Buffers& buffers, DeviceContext&) {
  std::copy_n(buffers.get(0), kValues, buffers.get(1));
}

inline void copy_on_gpu(const StepArgs& args, const Buffers& buffers, DeviceContext&) {
  if (args.fails) throw std::runtime_error("as it was told to");
  args.before();
  about_to_launch();
  if (args.on_gpu != nullptr) {
    static void (*on_gpu)();
    on_gpu = args.on_gpu;
    check(cudaLaunchHostFunc(
              CudaWorker::current().stream(), [](void*) { on_gpu(); }, nullptr),
          "keeping the GPU busy");
  }
  check(cudaMemcpyAsync(buffers.get(1), buffers.get(0), kValues * sizeof(float),
                        cudaMemcpyDeviceToDevice, CudaWorker::current().stream()),
        "copying");
  args.after();
}

inline void triple(const StepArgs& args, const Buffers& buffers, DeviceContext&) {
  args.before();
  for (std::int64_t i = 0; i < kValues; ++i) buffers.get(0)[i] *= 3;
}

inline Cost no_cost(const StepArgs&) { return {}; }
inline std::uint64_t one_shape(const StepArgs&) { return footprint_of(0); }

inline Codelet<StepArgs> copy_values(
    {.name = "test_copy",
     .implementations = {{"cpu", copy_on_cpu}, {"cuda", copy_on_gpu, nullptr, Role::gpu}},
     .cost = no_cost,
     .footprint = one_shape,
     .when_begun = [](const StepArgs& args) { note("begun ", args); },
     .when_done = [](const StepArgs& args) { note("done ", args); }});

inline Codelet<StepArgs> triple_on_cpu({.name = "test_triple",
                                        .implementations = {{"cpu", triple}},
                                        .cost = no_cost,
                                        .footprint = one_shape});

class Chain : public testing::Test {
 protected:
  void SetUp() override {
    SessionOptions options;
    options.cpu_workers = 1;
    options.gpus = {0};
    options.gpus_alone = true;
    options.models = folder_.path();
    session_.emplace(Session::start(options));
    ASSERT_TRUE(*session_) << session_->error().message();
    for (Tensor* tensor : {&a_, &b_}) {
      ASSERT_TRUE(tensor->allocate());
      const HostAccess access(*tensor, HostAccess::Mode::write);
      std::ranges::fill(access.f32(), 1.0f);
    }
    log.clear();
    starpu_profiling_status_set(STARPU_PROFILING_ENABLE);
    tasks_on_gpu();
  }
  void TearDown() override { clear_task_errors(); }

  // Returns the number of tasks since the last call.
  static int tasks_on_gpu() {
    int tasks = 0;
    for (int number = 0; number < static_cast<int>(starpu_cuda_worker_get_count()); ++number) {
      starpu_profiling_worker_info info;
      starpu_profiling_worker_get_info(starpu_worker_get_by_type(STARPU_CUDA_WORKER, number),
                                       &info);
      tasks += info.executed_tasks;
    }
    return tasks;
  }

  void expect(const Tensor& tensor, float value) const {
    const HostAccess access(tensor, HostAccess::Mode::read);
    for (const float each : access.f32()) ASSERT_EQ(each, value) << tensor.name();
  }

  // Submits additions that give Fibonacci numbers. Each number needs the two numbers before it.
  void submit_fibonacci(int pairs) {
    for (int i = 0; i < pairs; ++i) {
      accumulate_sum.submit({kValues}, {accumulate(a_), read(b_)});
      accumulate_sum.submit({kValues}, {accumulate(b_), read(a_)});
    }
  }

  TemporaryDirectory folder_;
  std::optional<Result<Session>> session_;
  Tensor a_{"a", kValues}, b_{"b", kValues};
};

}  // namespace omni::test
