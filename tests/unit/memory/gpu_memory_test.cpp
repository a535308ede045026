// These tests check the forecast of the memory that a training takes on a GPU.
#include <gtest/gtest.h>

#include "apps/omni-run/memory/demand.hpp"
#include "layers/formats/darknet/darknet.hpp"
#include "runtime/cuda/gpu_tensors.hpp"
#include "runtime/memory/memory_limits.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "tests/support/net_text.hpp"

namespace omni {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::size_t taken(std::initializer_list<std::size_t> tensors) {
  GpuTensors all;
  for (const std::size_t bytes : tensors) all.add(static_cast<double>(bytes), 1);
  return all.bytes();
}

TEST(GpuTensors, TakeWhatStarPuAllocates) {
  EXPECT_EQ(taken({}), 0u);
  EXPECT_EQ(taken({1}), 32 * kMiB);  // StarPU allocates small tensors in pieces of 32 MiB
  EXPECT_EQ(taken({4 * kMiB, 4 * kMiB, 4 * kMiB, 4 * kMiB, 4 * kMiB, 4 * kMiB, 4 * kMiB}),
            32 * kMiB);
  EXPECT_EQ(taken({4 * kMiB, 4 * kMiB, 4 * kMiB, 4 * kMiB, 4 * kMiB, 4 * kMiB, 4 * kMiB, 1}),
            64 * kMiB);  // the last tensor may not fit beside the others
  EXPECT_EQ(taken({5 * kMiB, 4 * kMiB + 1}), 12 * kMiB);
  EXPECT_EQ(taken({100 * kMiB, 1}), 132 * kMiB);
}

class Forecast : public testing::Test {
 protected:
  Forecast() {
    let_gpu_workers_compute(1);
    machine_.session.gpus = {0};
    machine_.gpu_memory = machine_.gpu_tensors = std::size_t{1} << 40;
  }
  ~Forecast() override { set_implementation_policy(before_); }

  static void let_gpu_workers_compute(std::uint32_t bits) {
    ImplementationPolicy policy;
    policy.gpu_workers = {bits};
    set_implementation_policy(policy);
  }
  MemoryForecast of(MemoryDemand demand) const { return {*net_, std::move(demand), machine_}; }
  static std::string hint(const Status& status) { return status ? "" : status.error().hint; }

  ImplementationPolicy before_ = implementation_policy();
  MachineArguments machine_;
  std::unique_ptr<Net> net_ = std::move(*Net::build(
      *parse_darknet_cfg(
          test::net(12, {4, 4, 1}) + test::connected(3, "logistic") + test::layer("softmax"),
          "net.cfg"),
      {}));
};

TEST_F(Forecast, SharesOutAMiniBatchAndNothingElse) {
  const MemoryDemand demand{.tensors = {{64 * kMiB, false}, {40 * kMiB, true}, {20 * kMiB, true}},
                            .training_images = {{16 * kMiB}, {16 * kMiB}},
                            .test_images = {{8 * kMiB}},
                            .working = {}};
  EXPECT_EQ(of(demand).on_each_gpu().tensors, 164 * kMiB);
  machine_.session.gpus = {0, 1};
  EXPECT_EQ(of(demand).on_each_gpu().tensors, 114 * kMiB);
}

TEST_F(Forecast, CountsTheGroupsOfTheGpuThatHasMost) {
  let_gpu_workers_compute(0b11);
  machine_.session.gpus = {0, 1};
  MemoryDemand demand{.tensors = {{60 * kMiB, true}, {60 * kMiB, true}, {60 * kMiB, true}},
                      .training_images = {},
                      .test_images = {},
                      .groups = {WorkerSet({0, 2}), WorkerSet({1, 3}), WorkerSet({0, 4})},
                      .working = {}};
  EXPECT_EQ(of(demand).on_each_gpu().tensors, 120 * kMiB);
  demand.groups = {WorkerSet({0, 1}), WorkerSet({0, 1}),
                   WorkerSet({2})};  // that of a core anywhere
  EXPECT_EQ(of(demand).on_each_gpu().tensors, 90 * kMiB);
  let_gpu_workers_compute(0b1111);  // two of each GPU
  demand.groups = {WorkerSet({0}), WorkerSet({1}), WorkerSet({3})};
  EXPECT_EQ(of(demand).on_each_gpu().tensors, 120 * kMiB);
}

TEST_F(Forecast, EveryWorkerHasItsOwnToComputeWith) {
  machine_.most_workspace = 10 * kMiB;
  const MemoryDemand demand{
      .tensors = {},
      .training_images = {},
      .test_images = {},
      .working = {.copies_on_gpu = 6 * kMiB, .factors_on_gpu = 3 * kMiB, .sum_on_gpu = 4 * kMiB}};
  EXPECT_EQ(of(demand).on_each_gpu().all(), 23 * kMiB);
  let_gpu_workers_compute(0b110);
  EXPECT_EQ(of(demand).on_each_gpu().all(), 46 * kMiB);
  machine_.session.gpus = {0, 1};
  EXPECT_EQ(of(demand).on_each_gpu().all(), 23 * kMiB);
}

TEST_F(Forecast, NamesTheSnapshotsThatDoNotFit) {
  machine_.session.gpus = {};
  MemoryDemand demand{.tensors = {{10 * kMiB, false}},
                      .training_images = {},
                      .test_images = {},
                      .working = {},
                      .in_main_memory_only = physical_memory(),
                      .snapshots = physical_memory(),
                      .without_snapshots = "--guard off"};
  EXPECT_TRUE(hint(of(demand).require()).starts_with("--guard off: snapshots of parameters take "));
  demand.tensors = {{2 * physical_memory(), false}};
  EXPECT_TRUE(hint(of(demand).require()).starts_with("no number of subdivisions"));
}

TEST_F(Forecast, SuggestsWhatFits) {
  MemoryDemand demand{.tensors = {{10 * kMiB, false}, {120 * kMiB, true}},
                      .training_images = {{24 * kMiB}},
                      .test_images = {},
                      .more_when_cut = 2,
                      .working = {}};
  machine_.gpu_tensors = 154 * kMiB;
  EXPECT_TRUE(of(demand).require());
  EXPECT_EQ(hint_for_full_gpu(), "try --subdivisions 2");  // for a GPU that is full nevertheless
  machine_.gpu_tensors = 153 * kMiB;
  EXPECT_EQ(hint(of(demand).require()), "try --subdivisions 2");  // 10 + 60 + 2 * 12
  machine_.gpu_tensors = 93 * kMiB;
  EXPECT_EQ(hint(of(demand).require()), "try --subdivisions 3");
  machine_.gpu_memory = 60 * kMiB;  // the limit of all memory counts, too
  EXPECT_EQ(hint(of(demand).require()), "try --subdivisions 4");  // 10 + 30 + 2 * 6
  machine_.gpu_memory = 9 * kMiB;
  const Status never = of(demand).require();
  EXPECT_EQ(hint(never), "no number of subdivisions of batch 12 is enough");
  EXPECT_EQ(never.error().kind, ErrorKind::out_of_memory);
}

}  // namespace
}  // namespace omni
