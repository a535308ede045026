// These tests check the slices of mini-batches, chosen by a rule or by --slice.
#include <gtest/gtest.h>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

// Returns the images per slice of a net on `cores` cores.
std::vector<int> cut(const std::string& net, const std::string& cores,
                     std::vector<std::string> more = {}) {
  more.insert(more.end(),
              {"--net", net, "--gpus", "none", "--workers", cores, "--dry-run", "--json"});
  const Finished dry = omni_run(more);
  EXPECT_EQ(dry.exit_code, 0) << dry.errors;
  return nlohmann::json::parse(dry.output)["slices"];
}

using Sizes = std::vector<int>;

TEST(Slices, small_tasks_are_as_many_as_two_cores) {
  EXPECT_EQ(cut("lenet", "2"), Sizes({32, 32}));
  EXPECT_EQ(cut("lenet", "1"), Sizes({32, 32}));
  EXPECT_EQ(cut("lenet", "2", {"--deterministic"}), Sizes(4, 16));  // never by the machine
}

TEST(Slices, larger_tasks_are_four_or_more) {
  EXPECT_EQ(cut("cifar10-quick", "2"), Sizes(4, 25));
  EXPECT_EQ(cut("caffenet", "2", {"--batch", "64", "--subdivisions", "1"}), Sizes(4, 16));
}

TEST(Slices, what_is_not_worth_cutting_stays_whole) { EXPECT_EQ(cut("mlp", "2"), Sizes({64})); }

TEST(Slices, the_command_line_decides) {
  EXPECT_EQ(cut("lenet", "2", {"--slice", "24"}), Sizes({24, 24, 16}));
}

}  // namespace
}  // namespace omni::test
