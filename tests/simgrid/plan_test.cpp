// What the plan predicts for compute groups on a machine that this one is not, against what the
// engine takes there.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/simgrid/machine.hpp"

namespace omni::test {
namespace {

using nlohmann::json;

struct Run {
  std::string net;
  int batch, slice, iterations;
  std::vector<int> groups;
  double most_off;
  int runs = 1;
};

// The cores decode images and do nothing that a GPU could. Where they also help it, iterations of
// the engine itself differ by a tenth from run to run, which nothing can foretell.
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
    const double predicted = row["predicted"], took = row["took"];
    std::printf("%23d%14.3f%12.3f%+8.1f %%\n", row["groups"].get<int>(), 1e3 * predicted,
                1e3 * took, 100 * (predicted / took - 1));
    EXPECT_NEAR(predicted / took, 1, run.most_off) << run.net << ", " << row;
  }
}

TEST(Plan, foretells_iterations_on_a_gpu_with_4_cores) {
  const Machine machine{.cores = 4, .gpus = 1};
  const std::vector<int> groups{1, 2, 4, 8, 16};
  expect_foretold(machine, {"cifar10-quick", 128, 32, 20, groups, 0.02});
  expect_foretold(machine, {"caffenet", 64, 16, 20, groups, 0.02});
}

// Which GPU does what changes by chance there: one run of the engine differs from the next by up to
// 15 %, so that means are compared. Tests of two numbers, as more would take longer than one may.
TEST(Plan, foretells_one_and_two_groups_on_8_gpus_with_32_cores) {
  expect_foretold({.cores = 32, .gpus = 8}, {"caffenet", 256, 32, 30, {1, 2}, 0.05, 3});
}
TEST(Plan, foretells_four_and_eight_groups_on_8_gpus_with_32_cores) {
  expect_foretold({.cores = 32, .gpus = 8}, {"caffenet", 256, 32, 30, {4, 8}, 0.05, 3});
}

// A mini-batch in one slice keeps one GPU busy, so groups gain; with two and four, the knee, twice
// as many no longer take half the time. Rounds of eight groups have been
// 2.2 to 6.8 % off: that this test may fail is a defect of the plan, which is known.
TEST(Plan, foretells_one_group_that_needs_a_gpu) {
  expect_foretold({.cores = 32, .gpus = 8}, {"caffenet", 128, 128, 30, {1}, 0.05, 7});
}
TEST(Plan, foretells_the_knee_of_groups_that_each_need_a_gpu) {
  expect_foretold({.cores = 32, .gpus = 8}, {"caffenet", 128, 128, 30, {2, 4}, 0.10, 7});
}
TEST(Plan, foretells_eight_groups_that_each_need_a_gpu) {
  expect_foretold({.cores = 32, .gpus = 8}, {"caffenet", 128, 128, 30, {8}, 0.05, 7});
}

}  // namespace
}  // namespace omni::test
