// What the plan predicts for compute groups on a machine that this one is not, against what the
// engine takes there.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/simgrid/machine.hpp"

namespace omni::test {
namespace {

using nlohmann::json;

// The cores decode images and do nothing that a GPU could. Where they also help it, iterations of
// the engine itself differ by a tenth from run to run, which nothing can foretell.
void expect_foretold(const Machine& machine, const std::string& net, int batch, int slice) {
  const json result =
      simulate(machine,
               {{"net", std::string(OMNI_SOURCE_DIR) + "/apps/nets/" + net + ".cfg"},
                {"batch", batch},
                {"slice", slice},
                {"gpus_only", true},
                {"iterations", 20},
                {"groups", {1, 2, 4, 8, 16}}},
               "foretell");
  ASSERT_FALSE(result.contains("failed")) << result;
  std::printf("%-15s%8s%14s%12s\n", net.c_str(), "groups", "predicted ms", "took ms");
  for (const json& row : result["rows"]) {
    const double predicted = row["predicted"], took = row["took"];
    std::printf("%23d%14.3f%12.3f%+8.1f %%\n", row["groups"].get<int>(), 1e3 * predicted,
                1e3 * took, 100 * (predicted / took - 1));
    EXPECT_NEAR(predicted / took, 1, 0.05) << net << ", " << row;
  }
}

TEST(Plan, foretells_iterations_on_a_gpu_with_4_cores) {
  const Machine machine{.cores = 4, .gpus = 1};
  expect_foretold(machine, "cifar10-quick", 128, 32);
  expect_foretold(machine, "caffenet", 64, 16);
}

}  // namespace
}  // namespace omni::test
