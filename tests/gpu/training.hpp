// These functions train nets in tests of GPUs. They return losses, and which workers did which
// tasks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/support/net_text.hpp"
#include "tests/support/omni_perf.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {

using Words = std::vector<std::string>;

#ifdef OMNI_PLAYED_GPU
inline constexpr bool kPlayed = true;
#else
inline constexpr bool kPlayed = false;
#endif

// This net has the layer types of the shipped nets, and is small enough for a played GPU.
inline const std::string kMixedNet =
    net(8, {12, 12, 3}, "learning_rate=0.02\nmomentum=0.9\ndecay=0.0005\n") +
    convolutional(8, "leaky", "pad=1\nbatch_normalize=1\n") +
    layer("maxpool", "size=2\nstride=2\n") + convolutional(8, "relu", "pad=1\ngroups=2\n") +
    layer("normalization", "alpha=0.001\nsize=5\n") + layer("route", "layers=-1,-3\n") +
    layer("convolutional", "filters=8\nsize=1\nactivation=linear\n") +
    layer("shortcut", "from=-4\nactivation=relu\n") + layer("avgpool") +
    layer("dropout", "probability=0.3\n") + connected(10, "logistic") + layer("softmax");

// This net has the other layer types.
inline const std::string kOtherNet =
    net(8, {12, 12, 4}, "learning_rate=0.01\nmomentum=0.9\ndecay=0.0005\n") +
    layer("crop", "crop_height=10\ncrop_width=10\nflip=1\n") + convolutional(8, "mish") +
    layer("local", "filters=4\nsize=3\npad=1\nactivation=relu\n") + layer("l2norm") +
    layer("reorg", "stride=2\n") + layer("upsample", "stride=2\n") + layer("batchnorm") +
    layer("deconvolutional", "filters=4\nsize=2\nstride=2\nactivation=leaky\nbatch_normalize=1\n") +
    layer("avgpool", "size=2\nstride=2\n") + layer("activation", "activation=logistic\n") +
    connected(10);

class Training : public testing::Test {
 protected:
  Training() { put(mixed(), kMixedNet); }
  std::string mixed() const { return folder_ / "mixed.cfg"; }

  // Returns the losses of the training's steps.
  std::vector<double> losses(const std::string& net, Words more, const std::string& slice = "4") {
    const std::string metrics = folder_ / "metrics.jsonl";
    std::filesystem::remove(metrics);
    Words arguments{"--net",     net,       "--display", "1",  "--metrics", metrics,
                    "--no-test", "--slice", slice,       "-q", "--out",     folder_ / "run"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished run = omni_run(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    std::vector<double> losses;
    for (const auto& line : read_metrics(metrics))
      if (line.contains("loss") && line["loss"].is_number()) losses.push_back(line["loss"]);
    return losses;
  }

  // Returns `what` of every codelet in a trace.
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

  // Rounding differences grow from step to step.
  static void expect_equal(const std::vector<double>& gpu, const std::vector<double>& cpu,
                           std::size_t steps) {
    ASSERT_EQ(gpu.size(), steps);
    ASSERT_EQ(cpu.size(), steps);
    double tolerance = 1e-4;
    for (std::size_t i = 0; i < steps; ++i, tolerance *= 1.2)
      EXPECT_NEAR(gpu[i], cpu[i], tolerance * std::max(1.0, cpu[i])) << "step " << i + 1;
  }

  static void expect_near(const std::vector<double>& losses, const std::vector<double>& others,
                          std::size_t steps, double most_off) {
    ASSERT_EQ(losses.size(), steps);
    ASSERT_EQ(others.size(), steps);
    for (std::size_t i = 0; i < steps; ++i)
      EXPECT_NEAR(losses[i], others[i], most_off * others[i]) << "step " << i + 1;
  }

  // Returns the number of the codelet's tasks by the kind of worker.
  static std::map<std::string, int> tasks_by_kind(const std::string& trace,
                                                  const std::string& codelet) {
    std::map<int, std::string> kinds;  // of workers
    std::map<std::string, int> tasks{{"CPU", 0}, {"CUDA", 0}};
    int number = -1;
    for (const auto& line : read_metrics(trace + "/rank-0.jsonl")) {
      if (line.contains("kind") && line.contains("worker")) kinds[line["worker"]] = line["kind"];
      if (line.contains("name") && line["name"] == codelet) number = line["codelet"];
      if (line.contains("times") && line["codelet"] == number) ++tasks[kinds.at(line["worker"])];
    }
    return tasks;
  }

  TemporaryDirectory folder_;
};

}  // namespace omni::test
