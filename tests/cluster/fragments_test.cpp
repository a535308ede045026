// These tests train groups on two ranks that meet about fragments of the parameters (--fragments).
#include <gtest/gtest.h>

#include "tests/cluster/small_training.hpp"

namespace omni::test {
namespace {

using FragmentsOnRanks = SmallTraining;

TEST_F(FragmentsOnRanks, are_refused_where_they_do_not_fit) {
  const std::string net = net_of(2 * kHalf);
  const auto expect_refused = [&](Words how, const std::string& text) {
    how.insert(how.end(), {"--groups", "2"});
    const Finished run = on_ranks(1, training(net, 4, how));
    EXPECT_EQ(run.exit_code, 2) << text;
    EXPECT_NE(run.errors.find(text), std::string::npos) << run.errors;
  };
  expect_refused({"--strategy", "local", "--fragments", "17"},
                 "--fragments: 17 fragments do not meet in turn within 16 mini-batches "
                 "(--sync-every 17, or fewer fragments)");
  expect_refused({"--strategy", "sma", "--fragments", "2"},
                 "--fragments: 2 fragments do not meet in turn within 1 mini-batch ");
  expect_refused({"--strategy", "local", "--fragments", "4", "--fragment-delay", "16"},
                 "--fragment-delay: a group would contribute again before it takes the average: "
                 "it does so every 16 mini-batches (15 is the most)");
  expect_refused({"--strategy", "local", "--fragment-mix", "0.2"},
                 "--fragment-mix: has no effect on meetings about all parameters at once "
                 "(add --fragments 4, say)");
  expect_refused({"--strategy", "elastic", "--fragments", "2"},
                 "--fragments: --strategy elastic does not use it");
  expect_refused(
      {"--strategy", "sma", "--sync-every", "4", "--fragments", "2", "--fragment-mix", "0.1"},
      "--fragment-mix: --strategy sma does not use it");
  expect_refused(
      {"--strategy", "local", "--fragments", "2", "--arrivals", "virtual", "--machine", "33-nodes"},
      "--fragments: the virtual clock knows meetings about all parameters only");
}

// The fragments' messages are coded, too. Two ranks have the bits of one process without a coding.
TEST_F(FragmentsOnRanks, have_the_bits_of_one_process) {
  const std::string net = net_of(kHalf);
  for (const Words& strategy :
       {Words{"--strategy", "local", "--sync-every", "4", "--fragments", "2"},
        Words{"--strategy", "local", "--sync-every", "5", "--fragments", "3", "--fragment-delay",
              "2", "--fragment-mix", "0", "--outer-momentum", "0.5"},
        Words{"--strategy", "sma", "--sync-every", "2", "--fragments", "2"}}) {
    Words one = strategy;
    one.insert(one.end(), {"--groups", "2", "--save-weights", folder_ / "one"});
    const Finished run = on_ranks(1, training(net, 34, one));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    Words two = strategy;
    two.insert(two.end(), {"--groups", "2"});
    EXPECT_TRUE(get(trained(net, 34, two)) == get(folder_ / "one"));
    two.insert(two.end(), {"--send", "bf16"});
    Words first = two, second = two;
    const std::string whole = get(trained(net, 34, two)), out = folder_ / "run";
    first.insert(first.end(), {"--out", out, "--checkpoint-every", "11"});
    second.insert(second.end(), {"--out", out, "--resume", "auto"});
    std::filesystem::remove_all(out);
    EXPECT_EQ(on_ranks(2, training(net, 11, first)).exit_code, 0);
    EXPECT_TRUE(get(trained(net, 34, second)) == whole);
  }
}

}  // namespace
}  // namespace omni::test
