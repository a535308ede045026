// These tests check when algorithms of convolutions and products are tried: a few at the start, the
// others later, and none for good while another worker computes on the GPU.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "codelets/convolution/convolution.hpp"
#include "codelets/cuda/trial_time.hpp"
#include "codelets/dense/connected.hpp"
#include "runtime/cuda/first_launch.hpp"
#include "runtime/cuda/worker.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/device_context.hpp"
#include "tests/played_gpu/tests/device_array.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

using test::DeviceArray;
using test::TestStream;

constexpr ConvShape kShape{.n = 2, .h = 5, .w = 4, .c = 4, .filters = 8, .groups = 2};
constexpr int kMany = 40;          // more than there are algorithms
constexpr std::size_t kFew = 512;  // bytes that suffice for some algorithms, but not for all

std::vector<float> some(std::int64_t count, int step) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((static_cast<int>(i) * step) % 7 - 3);
  return values;
}

class Trials : public testing::Test {
 protected:
  Trials() {
    setenv("STARPU_PERF_MODEL_DIR", folder_.path().c_str(), 1);
    set_implementation_policy({});
  }
  ~Trials() override {
    TrialTime::of_process().set(10, 0.1);
    unsetenv("STARPU_PERF_MODEL_DIR");
  }

  // Returns how many choices of the library are stored under this name.
  std::size_t stored(const char* library, const char* name) const {
    for (const auto& each : std::filesystem::directory_iterator(folder_.path())) {
      if (!each.path().filename().string().starts_with(library)) continue;
      const auto json = nlohmann::json::parse(test::get(each.path()));
      return json.contains(name) ? json[name].size() : 0;
    }
    return 0;
  }

  // A Gradient of weights is added to a sum many times. The numbers are small, so all sums are
  // exact. Device memory is allocated at once, because that waits for all streams.
  struct Gradient {
    Gradient() {
      reference::conv_backward_weights<double>(
          {.shape = kShape}, std::vector<double>(x.begin(), x.end()).data(),
          std::vector<double>(dy.begin(), dy.end()).data(), expected.data(), nullptr);
    }
    void run(int times) {
      const std::array<void*, 3> pointers{src.begin(), diff_dst.begin(), sum.begin()};
      for (int i = 0; i < times; ++i) {
        gpu::conv_backward_weights({.shape = kShape}, Buffers(pointers), DeviceContext::current());
        ++added;
        const auto found = sum.values(nullptr);
        for (std::size_t at = 0; at < found.size(); ++at)
          ASSERT_NEAR(found[at], added * expected[at], 1e-4 * (1 + std::abs(expected[at])));
      }
    }
    std::vector<float> x = some(kShape.src_count(), 3), dy = some(kShape.dst_count(), 5);
    std::vector<double> expected =
        std::vector<double>(static_cast<std::size_t>(kShape.weights_count()));
    DeviceArray src = DeviceArray(x), diff_dst = DeviceArray(dy),
                sum = DeviceArray(std::vector<float>(expected.size()));
    int added = 0;
  };

  test::TemporaryDirectory folder_;
};

TEST_F(Trials, go_on_while_a_training_goes_on) {
  TrialTime::of_process().set(0, 0);
  std::thread([&] {
    Gradient gradient;
    gradient.run(kMany);
    EXPECT_EQ(stored("cudnn", "unfinished"), 1u);
    EXPECT_EQ(stored("cudnn", "algorithms"), 0u);
    TrialTime::of_process().set(100, 1);
    gradient.run(3);
    EXPECT_EQ(stored("cudnn", "algorithms"), 0u) << "only one is tried at a time";
    gradient.run(kMany);
    EXPECT_EQ(stored("cudnn", "unfinished"), 0u);
    EXPECT_EQ(stored("cudnn", "algorithms"), 1u);
  }).join();
}

TEST_F(Trials, are_finished_at_once_if_the_limit_is_lifted) {
  TrialTime::of_process().lift();
  std::thread([&] {
    Gradient().run(1);
    EXPECT_EQ(stored("cudnn", "algorithms"), 1u);
  }).join();
}

TEST_F(Trials, of_an_unfinished_shape_go_on_in_the_next_run) {
  TrialTime::of_process().set(0, 0);
  std::thread([] { Gradient().run(1); }).join();
  EXPECT_EQ(stored("cudnn", "unfinished"), 1u);
  TrialTime::of_process().set(100, 1);
  std::thread([] { Gradient().run(kMany); }).join();
  EXPECT_EQ(stored("cudnn", "algorithms"), 1u);
}

TEST_F(Trials, of_an_unfinished_shape_are_finished_at_once_if_the_limit_is_lifted) {
  TrialTime::of_process().set(0, 0);
  std::thread([] { Gradient().run(1); }).join();
  EXPECT_EQ(stored("cudnn", "unfinished"), 1u);
  const TrialTime::Lifted lifted;
  std::thread([&] {
    Gradient().run(1);
    EXPECT_EQ(stored("cudnn", "algorithms"), 1u);
    EXPECT_EQ(stored("cudnn", "unfinished"), 0u);
  }).join();
}

// Each of these runs is too short to try everything.
TEST_F(Trials, of_several_short_runs_add_up) {
  TrialTime::of_process().set(0, 0);
  std::thread([] { Gradient().run(1); }).join();
  TrialTime::of_process().set(100, 1);
  int runs = 0;
  for (; runs < kMany && stored("cudnn", "algorithms") == 0; ++runs)
    std::thread([] { Gradient().run(4); }).join();
  EXPECT_EQ(stored("cudnn", "algorithms"), 1u);
  EXPECT_GT(runs, 1) << "one run has tried everything";
}

TEST_F(Trials, for_which_memory_lacks_are_repeated_in_the_next_run) {
  std::thread([&] {
    void* most = nullptr;
    Gradient gradient;
    CudaWorker::current().workspace(1 << 20);
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    check(cudaMalloc(&most, free - kFew), "filling the device");
    const TrialTime::Lifted lifted;
    gradient.run(2);
    EXPECT_EQ(stored("cudnn", "algorithms"), 0u);
    EXPECT_EQ(stored("cudnn", "unfinished"), 1u);
    cudaFree(most);
  }).join();
  const TrialTime::Lifted lifted;
  std::thread([] { Gradient().run(1); }).join();
  EXPECT_EQ(stored("cudnn", "algorithms"), 1u);
}

TEST_F(Trials, that_are_disturbed_for_long_are_stored_as_unfinished) {
  TrialTime::of_process().set(100, 1, 0);
  std::thread([&] {
    Gradient gradient;
    TestStream stream;
    const CudaWorker other(stream);
    {
      test::Stop stop(stream);
      gradient.run(kMany);
      EXPECT_EQ(stored("cudnn", "algorithms"), 0u);
      EXPECT_EQ(stored("cudnn", "unfinished"), 1u);
    }
    check(cudaStreamSynchronize(stream), "waiting");
  }).join();
  std::thread([] { Gradient().run(kMany); }).join();
  EXPECT_EQ(stored("cudnn", "algorithms"), 1u);
}

TEST_F(Trials, that_other_work_disturbs_are_repeated) {
  TrialTime::of_process().lift();
  const ConnectedShape connected{.n = 6, .inputs = 8, .outputs = 4};
  const DeviceArray src(some(connected.src_count(), 3)),
      weights(some(connected.weights_count(), 5)),
      dst(static_cast<std::size_t>(connected.dst_count()));
  const std::array<void*, 3> pointers{src.begin(), weights.begin(), dst.begin()};
  const auto multiply = [&] {
    gpu::connected_forward({connected}, Buffers(pointers), DeviceContext::current());
  };
  std::thread([&] {
    Gradient gradient;
    TestStream stream;
    const CudaWorker other(stream);
    {
      test::Stop stop(stream);
      gradient.run(kMany);
      multiply();
      multiply();
      for (const char* library : {"cudnn", "cublaslt"})
        for (const char* name : {"algorithms", "unfinished"})
          EXPECT_EQ(stored(library, name), 0u) << library;
    }
    check(cudaStreamSynchronize(stream), "waiting");
    gradient.run(kMany);
    multiply();
    EXPECT_EQ(stored("cudnn", "algorithms"), 1u);
    EXPECT_EQ(stored("cublaslt", "algorithms"), 1u);
  }).join();
}

// A worker of the same GPU that launched something in the meantime has disturbed a measurement,
// even if it is at rest again.
TEST_F(Trials, others_are_seen_that_computed_in_the_meantime) {
  TestStream stream;
  const CudaWorker here(stream);
  const CudaWorker::OthersAtRest others(here);
  EXPECT_TRUE(others.so_far());
  const CudaWorker::OthersAtRest of_others(CudaWorker::current());
  about_to_launch();
  EXPECT_FALSE(others.so_far());
  EXPECT_TRUE(of_others.so_far());
  EXPECT_TRUE(CudaWorker::OthersAtRest(here).so_far());
}

}  // namespace
}  // namespace omni
