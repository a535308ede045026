// These tests compare trainings on a GPU with those on a CPU, step by step. They also run on both
// at once, with a random scheduler, and resume on another device.
#include "tests/gpu/training.hpp"

#include <set>

#include "codelets/normalise/batchnorm_whole.hpp"
#include "runtime/cuda/devices.hpp"
#include "tests/support/images/image_folder.hpp"

namespace omni::test {
namespace {

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

// The inspection reads layer outputs that lie on the GPU only.
TEST_F(Training, a_net_that_cannot_learn_is_inspected) {
  const Finished run =
      omni_run({"--net", mixed(), "--no-test", "--slice", "8", "--out", folder_ / "run", "--impl",
                "cuda", "--learning-rate", "0", "--max-batches", "850", "--strict"});
  EXPECT_EQ(run.exit_code, 6) << run.errors;
  EXPECT_NE(run.errors.find("error: the learning rate is 0: nothing is learned"), std::string::npos)
      << run.errors;
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

// Mini-batches are cut into two slices, or into one.
TEST_F(Training, of_all_other_layers) {
  const std::string net = folder_ / "other.cfg", trace = folder_ / "trace";
  for (const auto& [loss, slice] :
       {std::pair("[logistic]\n", "4"), std::pair("[cost]\ntype=smooth\n", "8")}) {
    SCOPED_TRACE(loss);
    put(net, kOtherNet + loss);
    const auto train = [&](Words more) {
      more.insert(more.end(), {"--max-batches", "6"});
      return losses(net, more, slice);
    };
    const auto cpu = train({"--gpus", "none"});
    expect_equal(train({"--impl", "cuda", "--trace", trace}), cpu, 6);
    for (const auto& [precision, most_off] : {std::pair("tf32", 0.005), std::pair("bf16", 0.01)})
      expect_near(train({"--impl", "cuda", "--precision", precision}), cpu, 6, most_off);
    for (const auto& [codelet, implementation] : implementations(trace))
      if (codelet != "copy_image_pixels" && codelet != "read_image_labels") {
        EXPECT_EQ(implementation, "cuda") << codelet;
      }
    std::filesystem::remove_all(trace);
  }
}

TEST_F(Training, on_both_kinds_of_workers_at_random) {
  const auto cpu = losses(mixed(), {"--max-batches", "10", "--gpus", "none"});
  for (const std::string seed : {"1", "2"}) {
    const std::string trace = folder_ / ("trace" + seed);
    setenv("STARPU_RAND_SEED", seed.c_str(), 1);
    expect_equal(losses(mixed(), {"--max-batches", "10", "--sched", "random", "--trace", trace}),
                 cpu, 10);
    const auto convolutions = tasks_by_kind(trace, "conv_forward");
    EXPECT_GT(convolutions.at("CUDA"), 0);
    EXPECT_GT(convolutions.at("CPU"), 0);
  }
  unsetenv("STARPU_RAND_SEED");
}

TEST_F(Training, in_tf32) {
  const auto train = [&](const char* precision) {
    return losses(mixed(), {"--max-batches", "10", "--precision", precision, "--impl", "cuda",
                            "--deterministic"});
  };
  const auto fp32 = train("fp32"), tf32 = train("tf32");
  expect_near(tf32, fp32, 10, 0.005);
  if (kPlayed) {  // a GPU may have no tensor cores for products as small as these
    EXPECT_NE(tf32, fp32);
  }
}

// On a CPU, products take the same rounded numbers, and layers store their outputs in bf16.
TEST_F(Training, in_bf16) {
  const auto train = [&](const char* precision, Words more) {
    more.insert(more.end(), {"--max-batches", "10", "--precision", precision});
    return losses(mixed(), more);
  };
  const auto cpu = train("bf16", {"--gpus", "none", "--impl", "onednn"});
  const auto gpu = train("bf16", {"--impl", "cuda", "--deterministic"});
  expect_near(gpu, cpu, 10, 0.02);
  expect_near(train("bf16", {"--sched", "random"}), cpu, 10, 0.02);
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
  // For each value, unpack_batch reads one byte, and writes a float of four bytes or a bf16 of two.
  EXPECT_EQ(5 * bf16.at("unpack_batch"), 3 * floats.at("unpack_batch"));
  EXPECT_EQ(2 * bf16.at("copy_channels"), floats.at("copy_channels"));
}

// Each GPU computes a slice, and a block of the large connected layers' neurons.
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
    expect_near(train({"--impl", "cuda", "--gpus", "0,1", "--precision", "bf16"}), cpu, 6, 0.05);
  }
  unsetenv("OMNI_PLAYED_GPUS");
}

TEST_F(Training, with_the_default_scheduler) {
  expect_equal(losses(mixed(), {"--max-batches", "10"}),
               losses(mixed(), {"--max-batches", "10", "--gpus", "none"}), 10);
}

// With two slices, gradients of weights are added up. With one slice they are written.
constexpr const char* kSlices[]{"4", "8"};

TEST_F(Training, deterministic_is_bit_equal) {
  const Words arguments{"--max-batches", "10", "--deterministic"};
  for (const char* slice : kSlices)
    EXPECT_EQ(losses(mixed(), arguments, slice), losses(mixed(), arguments, slice));
}

TEST_F(Training, groups_exchange_on_the_gpu) {
  for (const char* slice : kSlices)
    for (const char* fc : {"merged", "replicated"}) {
      SCOPED_TRACE(std::string(slice) + fc);
      const Words groups{"--max-batches", "12",           "--groups", "2",
                         "--async",       "reproducible", "--fc",     fc};
      Words on_cpu = groups, on_gpu = groups;
      on_cpu.insert(on_cpu.end(), {"--gpus", "none"});
      on_gpu.insert(on_gpu.end(), {"--impl", "cuda"});
      expect_equal(losses(mixed(), on_gpu, slice), losses(mixed(), on_cpu, slice), 12);
    }
}

// The second subdivision adds to the gradients of the first one.
TEST_F(Training, subdivisions_add_up) {
  const Words two{"--max-batches", "10", "--subdivisions", "2"};
  Words on_cpu = two, on_gpu = two;
  on_cpu.insert(on_cpu.end(), {"--gpus", "none"});
  on_gpu.insert(on_gpu.end(), {"--impl", "cuda"});
  const auto cpu = losses(mixed(), on_cpu);
  expect_equal(losses(mixed(), on_gpu), cpu, 10);
  EXPECT_NE(cpu, losses(mixed(), {"--max-batches", "10", "--batch", "4", "--gpus", "none"}));
}

// With two workers per GPU, a GPU gets the calls one by one.
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
  // The map's key is the time at which the task was submitted.
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
  // A chain has all calls of a mini-batch from the forward pass to the updates. Its images are
  // unpacked before.
  EXPECT_EQ(computed.size(), 6u);
  EXPECT_GT(calls, 30u * 6);
  for (const auto& [submitted, chain] : computed) {
    std::int64_t before = submitted;
    for (const auto& [task, time] : chain) {
      EXPECT_GE(time.first, before) << task;
      before = time.second;
    }
  }
}

// Each group (a learner) has a CUDA stream of its own.
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
    if (!line.contains("iteration")) continue;  // the guard inspects the net before its first step
    EXPECT_EQ(line["worker"], line["group"]);
    submitted.insert(line["times"][0].get<std::int64_t>());
    ++seen;
  }
  EXPECT_EQ(seen, 12 * 2 * 3);  // slices, layers
  EXPECT_EQ(submitted.size(), 12u) << "a backward pass is handed over at once";
}

// Worker 2 is the CPU core.
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

// Operations with a vector implementation run on CPU cores, as --impl says. The others run on the
// GPU, one by one.
TEST_F(Training, of_another_implementation_is_deterministic_too) {
  const Words arguments{"--max-batches", "4", "--deterministic", "--impl", "vector"};
  Words on_cpu = arguments;
  on_cpu.insert(on_cpu.end(), {"--gpus", "none"});
  const auto here = losses(mixed(), arguments);
  EXPECT_EQ(here, losses(mixed(), arguments));
  expect_equal(here, losses(mixed(), on_cpu), 4);
}

TEST_F(Training, goes_on_across_devices) {
  const auto straight = losses(mixed(), {"--max-batches", "12", "--gpus", "none"}, "8");
  const auto part = [&](const char* until, Words device) {
    device.insert(device.end(),
                  {"--max-batches", until, "--checkpoint-every", "4", "--resume", "auto"});
    return losses(mixed(), device, "8");
  };
  std::vector<double> parts;
  for (const auto& losses : {part("4", {"--gpus", "none"}), part("8", {"--impl", "cuda"}),
                             part("12", {"--gpus", "none"})})
    parts.insert(parts.end(), losses.begin(), losses.end());
  expect_equal(parts, straight, 12);
}

// Layers are timed in at most twenty additional iterations.
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

}  // namespace
}  // namespace omni::test
