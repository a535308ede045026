// A check whether a run folder can be made leaves nothing behind, because other runs may start in
// the same place.
#include "apps/omni-run/training/run_folder.hpp"

#include <gtest/gtest.h>

#include "tests/support/run_program.hpp"

namespace omni::test {
namespace {

TEST(RunFolders, AreTriedByTwoAtOnce) {
  const TemporaryDirectory folder;
  const auto all_pass = [&] {
    bool passed = true;
    for (int i = 0; i < 1000; ++i)
      passed = RunFolder::prepare(folder / "omni-runs/net", false, false, 2, 1) && passed;
    return passed;
  };
  const pid_t other = fork();
  if (other == 0) _exit(all_pass() ? 0 : 1);
  EXPECT_TRUE(all_pass());
  EXPECT_EQ(wait_for_program(other), 0);
  EXPECT_EQ(entries_in(folder.path()), 0);
}

}  // namespace
}  // namespace omni::test
