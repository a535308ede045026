// These tests check that ranks which change their groups during a training learn the same bits as a
// training that was resumed in these groups.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tuple>

#include "tests/cluster/ranks.hpp"

namespace omni::test {
namespace {

// A cold start trains 6 iterations in one group of all ranks, then in several groups.
class OtherGroupsOnRanks : public testing::Test {
 protected:
  // Trains in `groups` groups with the same bits each time, and returns the final weights.
  std::string weights(int ranks, int iterations, Words more) {
    const std::string file = folder_ / "weights";
    Words words{"--net",           "lenet",     "--data",          "synthetic:480:10",
                "--batch",         "16",        "--models",        folder_ / "models",
                "--slice",         "2",         "--workers",       "1",
                "--deterministic", "--no-test", "--learning-rate", rate_,
                "--save-weights",  file,        "--max-batches",   std::to_string(iterations)};
    words.insert(words.end(), more.begin(), more.end());
    const Finished run = on_ranks(ranks, std::move(words));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    errors_ = run.errors;
    return get(file);
  }
  static Words joined(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  TemporaryDirectory folder_;
  std::string rate_ = "0.002", errors_;
};

TEST_F(OtherGroupsOnRanks, are_those_of_a_resumed_training) {
  struct Case {
    int ranks, groups;
    Words more;
  };
  for (const auto& [ranks, groups, more] :
       {Case{2, 2, {}}, Case{3, 3, {}}, Case{4, 2, {"--fc", "replicated"}}, Case{2, 4, {}}}) {
    const Words several = joined({"--groups", std::to_string(groups)}, more);
    const std::string at_once = weights(ranks, 14, joined(several, {"--cold-start", "6"}));
    const std::string out = folder_ / fmt::format("run{}-{}-{}", ranks, groups, more.size());
    weights(ranks, 6, {"--out", out, "--checkpoint-every", "6"});
    const std::string in_two =
        weights(ranks, 14, joined(several, {"--out", out, "--resume", "auto"}));
    EXPECT_TRUE(at_once == in_two) << ranks << " ranks, " << groups << " groups";
  }
}

// Adam's second state has owners, too.
TEST_F(OtherGroupsOnRanks, go_on_with_both_states_of_the_solver) {
  const Words adam{"--set", "adam=1", "--momentum-compensation", "off", "--fc", "replicated"};
  const Words several = joined({"--groups", "2"}, adam);
  const std::string at_once = weights(2, 14, joined(several, {"--cold-start", "6"}));
  weights(2, 6, {"--set", "adam=1", "--out", folder_ / "run", "--checkpoint-every", "6"});
  EXPECT_TRUE(at_once ==
              weights(2, 14, joined(several, {"--out", folder_ / "run", "--resume", "auto"})));
}

// A checkpoint that 4 ranks save after the change goes on with the same bits on other numbers of
// ranks, one after the other.
TEST_F(OtherGroupsOnRanks, save_what_other_numbers_of_ranks_continue) {
  for (const char* groups : {"2", "4"}) {
    const Words words{"--groups", groups, "--cold-start", "6"};
    const std::string straight = weights(4, 20, words);
    EXPECT_TRUE(straight == weights(1, 20, words));
    const Words run =
        joined(words, {"--out", folder_ / groups, "--resume", "auto", "--checkpoint-every", "5"});
    weights(4, 5, run);  // still cold
    weights(4, 10, run);
    weights(2, 15, run);
    EXPECT_TRUE(straight == weights(1, 20, run)) << groups;
  }
}

// At these rates the loss rises. The guard goes back, or compares the parameters at the end.
TEST_F(OtherGroupsOnRanks, keep_the_parameters_that_one_process_keeps) {
  for (const auto& [rate, iterations, told] :
       {std::tuple("0.02", 60, "the loss rises at the end: the parameters are those of iteration"),
        std::tuple("0.2", 30, "back to the parameters of iteration")}) {
    rate_ = rate;
    std::string one;
    for (const int ranks : {1, 2, 4}) {
      const std::string own = weights(ranks, iterations, {"--groups", "4"});
      if (ranks == 1) one = own;
      EXPECT_TRUE(own == one) << rate << " on " << ranks << " ranks";
      const std::size_t place = errors_.find(told);
      EXPECT_NE(place, std::string::npos) << errors_;
      EXPECT_EQ(errors_.find("rank 1 on"), std::string::npos) << errors_;  // it is told once
    }
  }
}

// Both layouts need one image or slice for each rank of a group.
TEST_F(OtherGroupsOnRanks, are_refused_before_the_training_if_one_group_is_impossible) {
  const Finished run =
      on_ranks(3, {"--net", "lenet", "--batch", "2", "--no-test", "--groups", "3", "--cold-start",
                   "2", "--max-batches", "4", "--data", "synthetic:64:10"});
  EXPECT_EQ(run.exit_code, 2) << run.errors;
  EXPECT_NE(run.errors.find("3 ranks cannot share 2 images"), std::string::npos) << run.errors;
}

}  // namespace
}  // namespace omni::test
