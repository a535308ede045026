// Whole trainings on a GPU: what a CPU computes, step by step; on both at once, wherever a random
// scheduler puts a task; and across a change of the device.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "runtime/cuda/devices.hpp"
#include "tests/support/image_folder.hpp"
#include "tests/support/omni_perf.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;

#ifdef OMNI_PLAYED_GPU
constexpr bool kPlayed = true;
#else
constexpr bool kPlayed = false;
#endif

// Layers of every kind that takes part in training, small enough for a played GPU.
constexpr const char* kMixedNet = R"([net]
batch=8
height=12
width=12
channels=3
learning_rate=0.02
momentum=0.9
decay=0.0005
[convolutional]
filters=8
size=3
pad=1
batch_normalize=1
activation=leaky
[maxpool]
size=2
stride=2
[convolutional]
filters=8
size=3
pad=1
groups=2
activation=relu
[normalization]
alpha=0.001
size=5
[route]
layers=-1,-3
[convolutional]
filters=8
size=1
activation=linear
[shortcut]
from=-4
activation=relu
[avgpool]
[dropout]
probability=0.3
[connected]
output=10
activation=logistic
[softmax]
)";

class Training : public testing::Test {
 protected:
  Training() { put(mixed(), kMixedNet); }
  std::string mixed() const { return folder_ / "mixed.cfg"; }

  // The losses of its steps.
  std::vector<double> losses(const std::string& net, Words more) {
    const std::string metrics = folder_ / "metrics.jsonl";
    std::filesystem::remove(metrics);
    Words arguments{"--net",     net,       "--display", "1",  "--metrics", metrics,
                    "--no-test", "--slice", "4",         "-q", "--out",     folder_ / "run"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished run = omni_run(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    std::vector<double> losses;
    for (const auto& line : read_metrics(metrics))
      if (line.contains("loss") && line["loss"].is_number()) losses.push_back(line["loss"]);
    return losses;
  }

  // Of every codelet in a trace.
  template <class T>
  static std::map<std::string, T> of_codelets(const std::string& trace, const char* what) {
    const Finished kernels = omni_perf({"kernels", trace, "--json"});
    EXPECT_EQ(kernels.exit_code, 0) << kernels.errors;
    std::map<std::string, T> found;
    const auto report = nlohmann::json::parse(kernels.output);
    for (const auto& row : report["kernels"])
      EXPECT_TRUE(found.emplace(row["codelet"], row[what]).second) << row;
    return found;
  }
  static std::map<std::string, std::string> implementations(const std::string& trace) {
    return of_codelets<std::string>(trace, "implementation");
  }

  // Differences of rounding grow from step to step, `growth` times as large each.
  static void expect_equal(const std::vector<double>& gpu, const std::vector<double>& cpu,
                           std::size_t steps, double growth = 1.2) {
    ASSERT_EQ(gpu.size(), steps);
    ASSERT_EQ(cpu.size(), steps);
    double tolerance = 1e-4;
    for (std::size_t i = 0; i < steps; ++i, tolerance = std::min(0.05, tolerance * growth))
      EXPECT_NEAR(gpu[i], cpu[i], tolerance * std::max(1.0, cpu[i])) << "step " << i + 1;
  }

  TemporaryDirectory folder_;
};

TEST_F(Training, every_task_that_can_runs_on_the_gpu_when_asked) {
  const std::string trace = folder_ / "trace";
  losses(mixed(), {"--max-batches", "3", "--impl", "cuda", "--trace", trace});
  const auto used = implementations(trace);
  for (const auto& [codelet, implementation] : used) {
    if (codelet == "copy_image_pixels" || codelet == "read_image_labels")
      continue;  // of the data feed, on CPUs only
    EXPECT_EQ(implementation, "cuda") << codelet;
  }
  EXPECT_GE(used.size(), 21u);
}

TEST_F(Training, a_batch_of_one_slice_is_normalised_in_one_task_each_way) {
  const std::string trace = folder_ / "trace";
  const Words one_slice{"--max-batches", "10", "--batch", "4"};
  Words on_cpu = one_slice, on_gpu = one_slice;
  on_cpu.insert(on_cpu.end(), {"--gpus", "none"});
  on_gpu.insert(on_gpu.end(), {"--impl", "cuda", "--trace", trace});
  expect_equal(losses(mixed(), on_gpu), losses(mixed(), on_cpu), 10);
  std::map<std::string, std::string> of_normalisation;
  for (const auto& [codelet, implementation] : implementations(trace))
    if (codelet.starts_with("batchnorm_")) of_normalisation[codelet] = implementation;
  EXPECT_EQ(of_normalisation, (std::map<std::string, std::string>{{"batchnorm_backward", "cuda"},
                                                                  {"batchnorm_forward", "cuda"}}));
}

TEST_F(Training, image_files_become_floats_on_the_gpu) {
  const std::string trace = folder_ / "trace", net = folder_ / "images.cfg";
  make_image_folder(folder_ / "images");
  put(net, kImageNet);
  Words on_cpu{"--max-batches", "4", "--data", folder_ / "images"}, on_gpu = on_cpu;
  on_cpu.insert(on_cpu.end(), {"--gpus", "none"});
  on_gpu.insert(on_gpu.end(), {"--impl", "cuda", "--trace", trace});
  expect_equal(losses(net, on_gpu), losses(net, on_cpu), 4);
  EXPECT_EQ(implementations(trace)["unpack_batch"], "cuda");
}

TEST_F(Training, on_both_kinds_of_workers_at_random) {
  const auto cpu = losses(mixed(), {"--max-batches", "10", "--gpus", "none"});
  for (const char* seed : {"1", "2"}) {
    setenv("STARPU_RAND_SEED", seed, 1);
    expect_equal(losses(mixed(), {"--max-batches", "10", "--sched", "random"}), cpu, 10);
  }
  unsetenv("STARPU_RAND_SEED");
}

// Without a GPU a CPU multiplies the same rounded numbers, and layers hand on such.
TEST_F(Training, in_bf16) {
  const auto train = [&](const char* precision, Words more) {
    more.insert(more.end(), {"--max-batches", "10", "--precision", precision});
    return losses(mixed(), more);
  };
  const auto near = [](const std::vector<double>& gpu, const std::vector<double>& cpu) {
    ASSERT_EQ(cpu.size(), 10u);
    ASSERT_EQ(gpu.size(), 10u);
    for (std::size_t i = 0; i < 10; ++i) EXPECT_NEAR(gpu[i], cpu[i], 0.02 * cpu[i]) << "step " << i;
  };
  const auto cpu = train("bf16", {"--gpus", "none", "--impl", "onednn"});
  const auto gpu = train("bf16", {"--impl", "cuda", "--deterministic"});
  near(gpu, cpu);
  near(train("bf16", {"--sched", "random"}), cpu);
  EXPECT_NE(gpu, train("fp32", {"--impl", "cuda", "--deterministic"}));
}

TEST_F(Training, is_on_tensors_in_bf16) {
  const auto bytes_of_codelets = [&](const std::string& precision) {
    const std::string trace = folder_ / ("trace-" + precision);
    losses(mixed(),
           {"--max-batches", "3", "--impl", "cuda", "--precision", precision, "--trace", trace});
    return of_codelets<double>(trace, "bytes");
  };
  const auto floats = bytes_of_codelets("fp32"), bf16 = bytes_of_codelets("bf16");
  // A byte becomes a value of four bytes, or of two.
  EXPECT_EQ(5 * bf16.at("unpack_batch"), 3 * floats.at("unpack_batch"));
  EXPECT_EQ(2 * bf16.at("copy_channels"), floats.at("copy_channels"));
}

// A slice, and a block of the large connected layers' neurons, for each.
TEST_F(Training, on_two_gpus) {
  if (!kPlayed && find_gpus().found.size() < 2) GTEST_SKIP() << "only one GPU";
  setenv("OMNI_PLAYED_GPUS", "2", 1);
  for (const std::string& net : {std::string("mlp"), mixed()}) {
    SCOPED_TRACE(net);
    const auto train = [&](Words more) {
      more.insert(more.end(), {"--max-batches", "6", "--batch", "8", "--workers", "1"});
      return losses(net, more);
    };
    const auto cpu = train({"--gpus", "none"});
    expect_equal(train({"--impl", "cuda", "--gpus", "0,1"}), cpu, 6);
    const auto bf16 = train({"--impl", "cuda", "--gpus", "0,1", "--precision", "bf16"});
    ASSERT_EQ(bf16.size(), cpu.size());
    for (std::size_t i = 0; i < cpu.size(); ++i) EXPECT_NEAR(bf16[i], cpu[i], 0.05 * cpu[i]) << i;
  }
  unsetenv("OMNI_PLAYED_GPUS");
}

TEST_F(Training, with_the_default_scheduler) {
  expect_equal(losses(mixed(), {"--max-batches", "10"}),
               losses(mixed(), {"--max-batches", "10", "--gpus", "none"}), 10);
}

TEST_F(Training, deterministic_is_bit_equal) {
  const Words arguments{"--max-batches", "10", "--deterministic"};
  EXPECT_EQ(losses(mixed(), arguments), losses(mixed(), arguments));
}

TEST_F(Training, groups_exchange_on_the_gpu) {
  const Words groups{"--max-batches", "12", "--groups", "2", "--async", "reproducible"};
  Words on_cpu = groups, on_gpu = groups;
  on_cpu.insert(on_cpu.end(), {"--gpus", "none"});
  on_gpu.insert(on_gpu.end(), {"--impl", "cuda"});
  expect_equal(losses(mixed(), on_gpu), losses(mixed(), on_cpu), 12);
}

// With two workers it gets them one by one.
TEST_F(Training, a_lone_gpu_gets_many_calls_at_once) {
  const std::string trace = folder_ / "trace";
  const Words few{"--max-batches", "6", "--deterministic", "--gpus", "0"};
  Words traced = few;
  traced.insert(traced.end(), {"--trace", trace});
  const auto at_once = losses(mixed(), traced);
  setenv("STARPU_NWORKER_PER_CUDA", "2", 1);
  EXPECT_EQ(losses(mixed(), few), at_once);
  unsetenv("STARPU_NWORKER_PER_CUDA");

  int gpu = -1, unpacks = -1;
  // By when the task was submitted.
  std::map<std::int64_t, std::map<int, std::pair<std::int64_t, std::int64_t>>> computed;
  std::size_t calls = 0;
  for (const auto& line : read_metrics(trace + "/rank-0.jsonl")) {
    if (line.contains("kind") && line["kind"] == "CUDA") gpu = line["worker"];
    if (line.contains("name") && line["name"] == "unpack_batch") unpacks = line["codelet"];
    if (!line.contains("times") || line["worker"] != gpu || line["codelet"] == unpacks) continue;
    ++calls;
    const auto& times = line["times"];
    constexpr std::size_t kSubmitted = 0, kStart = 6, kEnd = 7;
    computed[times[kSubmitted]][line["task"]] = {times[kStart], times[kEnd]};
  }
  // Forward, backward and the updates of every mini-batch; images come ahead of them.
  EXPECT_LE(computed.size(), 3u * 6);
  EXPECT_GT(calls, 30u * 6);
  for (const auto& [submitted, chain] : computed) {
    std::int64_t before = submitted;
    for (const auto& [task, time] : chain) {
      EXPECT_GE(time.first, before) << task;
      before = time.second;
    }
  }
}

// A stream each.
TEST_F(Training, learners_share_a_gpu) {
  const std::string trace = folder_ / "trace";
  const Words groups{"--max-batches", "12", "--groups", "2", "--async", "reproducible"};
  Words on_cpu = groups, on_gpu = groups;
  on_cpu.insert(on_cpu.end(), {"--gpus", "none"});
  on_gpu.insert(on_gpu.end(), {"--impl", "cuda", "--gpus", "0", "--workers", "1", "--group-layout",
                               "0;1", "--trace", trace});
  const auto cpu = losses(mixed(), on_cpu);
  setenv("STARPU_NWORKER_PER_CUDA", "2", 1);
  const auto gpu = losses(mixed(), on_gpu);
  unsetenv("STARPU_NWORKER_PER_CUDA");
  expect_equal(gpu, cpu, 12);

  int convolution = -1, seen = 0;
  std::set<std::int64_t> submitted;
  for (const auto& line : read_metrics(trace + "/rank-0.jsonl")) {
    if (line.contains("name") && line["name"] == "conv_backward_weights")
      convolution = line["codelet"];
    if (!line.contains("times") || line["codelet"] != convolution) continue;
    EXPECT_EQ(line["worker"], line["group"]);
    submitted.insert(line["times"][0].get<std::int64_t>());
    ++seen;
  }
  EXPECT_EQ(seen, 12 * 2 * 3);  // slices, layers
  EXPECT_EQ(submitted.size(), 12u) << "a backward pass is handed over at once";
}

// Worker 2 is the core.
TEST_F(Training, a_group_that_has_only_cores_computes_on_them) {
  setenv("STARPU_NWORKER_PER_CUDA", "2", 1);
  for (const int second : {1, 2}) {
    const std::string trace = folder_ / ("trace-" + std::to_string(second));
    const Finished run = omni_run({"--net", mixed(), "--max-batches", "6", "--no-test", "--gpus",
                                   "0", "--workers", "1", "--groups", "2", "--group-layout",
                                   "0;" + std::to_string(second), "--trace", trace, "-q"});
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    int convolution = -1;
    std::set<int> of_second;
    for (const auto& line : read_metrics(trace + "/rank-0.jsonl")) {
      if (line.contains("name") && line["name"] == "conv_forward") convolution = line["codelet"];
      if (line.contains("times") && line["codelet"] == convolution && line["group"] == 1)
        of_second.insert(line["worker"].get<int>());
    }
    EXPECT_EQ(of_second, std::set<int>{second});
  }
  unsetenv("STARPU_NWORKER_PER_CUDA");
}

// It computes what it can where it was told to, and the rest on the GPU, one by one.
TEST_F(Training, of_another_implementation_is_deterministic_too) {
  const Words arguments{"--max-batches", "4", "--deterministic", "--impl", "vector"};
  Words on_cpu = arguments;
  on_cpu.insert(on_cpu.end(), {"--gpus", "none"});
  const auto here = losses(mixed(), arguments);
  EXPECT_EQ(here, losses(mixed(), arguments));
  expect_equal(here, losses(mixed(), on_cpu), 4);
}

TEST_F(Training, goes_on_across_devices) {
  const auto straight = losses(mixed(), {"--max-batches", "12", "--gpus", "none"});
  const auto part = [&](const char* until, Words device) {
    device.insert(device.end(),
                  {"--max-batches", until, "--checkpoint-every", "4", "--resume", "auto"});
    return losses(mixed(), device);
  };
  std::vector<double> parts;
  for (const auto& losses : {part("4", {"--gpus", "none"}), part("8", {"--impl", "cuda"}),
                             part("12", {"--gpus", "none"})})
    parts.insert(parts.end(), losses.begin(), losses.end());
  expect_equal(parts, straight, 12);
}

// Layers in at most twenty iterations of their own.
TEST_F(Training, are_timed_without_marks_between_the_layers) {
  const Finished timed =
      omni_run({"time", "--net", "lenet", "--batch", "4", "--subdivisions", "1", "--gpus", "0",
                "--workers", "1", "--warm-up", "1", "--iterations", "25", "--json", "-q"});
  ASSERT_EQ(timed.exit_code, 0) << timed.errors;
  const auto told = nlohmann::json::parse(timed.output);
  EXPECT_EQ(told["iteration_periods"].size(), 24u);
  int convolutions = 0;
  for (const auto& layer : told["layers"])
    if (layer["type"] == "convolutional") {
      ++convolutions;
      EXPECT_EQ(layer["codelets"]["conv_forward"]["cuda"]["tasks"], 1);
    }
  EXPECT_EQ(convolutions, 2);
}

class ShippedNet : public Training, public testing::WithParamInterface<const char*> {};

TEST_P(ShippedNet, has_the_losses_of_the_cpu) {
  const std::string net = GetParam();
  const bool small = net == "lenet" || net == "mlp" || net == "cifar10-quick";
  if (kPlayed && !small) GTEST_SKIP() << "too large for a played GPU";
  const Words few{"--max-batches", "10", "--batch", "4", "--subdivisions", "1"};
  Words on_cpu = few, on_gpu = few;
  on_cpu.insert(on_cpu.end(), {"--gpus", "none"});
  on_gpu.insert(on_gpu.end(), {"--impl", "cuda"});
  // AlexNet on the CPU, by oneDNN and by lowering: 1.4e-3 apart in the fourth step.
  const double growth = small ? 1.2 : 2.5;
  expect_equal(losses(net, on_gpu), losses(net, on_cpu), 10, growth);
}

INSTANTIATE_TEST_SUITE_P(All, ShippedNet,
                         testing::Values("lenet", "mlp", "cifar10-quick", "alexnet", "caffenet",
                                         "vgg-16", "resnet-18", "resnet-18-32", "resnet-50",
                                         "darknet19"));

}  // namespace
}  // namespace omni::test
