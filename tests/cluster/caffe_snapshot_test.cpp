// This test saves a snapshot for Caffe from a training over several ranks.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cluster/ranks.hpp"

namespace omni::test {
namespace {

// Each rank holds the velocities of its own part of the parameters. The snapshot must hold all
// velocities.
TEST(CaffeSnapshotOverRanks, HasWhatAllRanksRemember) {
  const TemporaryDirectory folder;
  const auto snapshot = [&](int ranks) {
    const Finished run = on_ranks(
        ranks, {"--solver", "lenet_solver.prototxt", "--data", "synthetic:640:10", "--max-batches",
                "3", "--no-test", "--workers", "1", "--deterministic", "--save-weights",
                folder / "x.caffemodel", "--set", "snapshot=2", "--out", folder / "run"});
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    const std::string middle = get(folder / "run/lenet_iter_2.solverstate");
    EXPECT_GT(middle.size(), 4u * 431080) << run.errors;
    return get(folder / "x.solverstate") + middle + get(folder / "run/lenet_iter_2.caffemodel");
  };
  const std::string one = snapshot(1);
  EXPECT_GT(one.size(), 4u * 431080);
  EXPECT_TRUE(snapshot(2) == one);
}

}  // namespace
}  // namespace omni::test
