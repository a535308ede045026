// These tests compare the times that the plan predicts for compute groups on simulated machines
// with the times that the engine takes on them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "tests/simgrid/machine.hpp"

namespace omni::test {
namespace {

using nlohmann::json;

// The mean of several runs has a standard error. A prediction may be wrong by the allowed share
// plus kErrors standard errors.
constexpr double kErrors = 3;

struct Run {
  std::string net;
  int batch, slice, iterations;
  std::vector<int> groups;
  double most_off;  // of the mean of the runs
  int runs = 1;
  std::vector<int> knee{};  // numbers of groups for which twice most_off is allowed
};

// The cores only decode images. If they also computed layers, the engine's own iterations would
// differ by a tenth from run to run, which no prediction can foresee.
void expect_foretold(const Machine& machine, const Run& run) {
  const json result =
      simulate(machine,
               {{"net", std::string(OMNI_SOURCE_DIR) + "/apps/nets/" + run.net + ".cfg"},
                {"batch", run.batch},
                {"slice", run.slice},
                {"gpus_only", true},
                {"iterations", run.iterations},
                {"groups", run.groups},
                {"runs", run.runs}},
               "foretell");
  ASSERT_FALSE(result.contains("failed")) << result;
  std::printf("%-15s%8s%14s%12s\n", run.net.c_str(), "groups", "predicted ms", "took ms");
  for (const json& row : result["rows"]) {
    const double predicted = row["predicted"];
    const std::vector<double> runs = row["took"];
    const auto count = static_cast<double>(runs.size());
    const double took = std::accumulate(runs.begin(), runs.end(), 0.0) / count;
    double squares = 0;
    for (const double each : runs) squares += (each / took - 1) * (each / took - 1);
    const double error = runs.size() > 1 ? std::sqrt(squares / (count - 1) / count) : 0;
    std::printf("%23d%14.3f%12.3f +- %.1f %%%+8.1f %%\n", row["groups"].get<int>(), 1e3 * predicted,
                1e3 * took, 100 * error, 100 * (predicted / took - 1));
    const bool at_knee = std::ranges::count(run.knee, row["groups"].get<int>()) > 0;
    const double most_off = run.most_off * (at_knee ? 2 : 1);
    EXPECT_NEAR(predicted / took, 1, most_off + kErrors * error) << run.net << ", " << row;
  }
}

TEST(Plan, foretells_iterations_on_a_gpu_with_4_cores) {
  const Machine machine{.cores = 4, .gpus = 1};
  const std::vector<int> groups{1, 2, 4, 8, 16};
  expect_foretold(machine, {"cifar10-quick", 128, 32, 20, groups, 0.02});
  expect_foretold(machine, {"caffenet", 64, 16, 20, groups, 0.02});
}

// On this machine, chance decides which GPU computes which task. Single runs of the engine differ
// by up to 15 %, so means are compared. One program measures, and plans, for all numbers of groups.
TEST(Plan, foretells_groups_on_8_gpus_with_32_cores) {
  expect_foretold({.cores = 32, .gpus = 8}, {"caffenet", 256, 32, 30, {1, 2, 4, 8}, 0.05, 3});
}

// With one slice per mini-batch, a group keeps one GPU busy, so groups gain. From two groups on,
// doubling the groups no longer halves the time.
TEST(Plan, foretells_groups_that_each_need_a_gpu) {
  expect_foretold({.cores = 32, .gpus = 8},
                  {"caffenet", 128, 128, 30, {1, 2, 4, 8}, 0.05, 7, {2, 4}});
}

}  // namespace
}  // namespace omni::test
