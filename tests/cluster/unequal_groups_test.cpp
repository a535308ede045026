// These tests check that groups on several ranks learn what groups in one process learn, if groups,
// their shares or their updates are unequal.
#include <gtest/gtest.h>

#include "tests/cluster/ranks.hpp"

namespace omni::test {
namespace {

class UnequalGroups : public testing::Test {
 protected:
  // Returns the final weights.
  std::string weights(int ranks, const std::string& iterations, Words words) {
    const std::string file = folder_ / "weights";
    words.insert(words.end(), {"--net", "lenet", "--data", "synthetic:480:10", "--models",
                               folder_ / "models", "--workers", "1", "--max-batches", iterations,
                               "--deterministic", "--save-weights", file});
    const Finished run = on_ranks(ranks, std::move(words));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return get(file);
  }

  TemporaryDirectory folder_;
};

// The groups have made 15 and 16 updates when they meet last, so their weights are no powers of
// two.
TEST_F(UnequalGroups, of_elastic_have_the_bits_of_one_process) {
  const Words words{"--strategy", "elastic", "--groups", "2", "--sync-every", "4",
                    "--batch",    "32",      "--slice",  "1", "--no-test"};
  EXPECT_TRUE(weights(2, "31", words) == weights(1, "31", words));
}

// The first group has two ranks, the second one three, with unlike numbers of slices.
TEST_F(UnequalGroups, of_two_and_three_ranks_have_the_bits_of_one_process) {
  for (const Words& how : {Words{"async", "--fc", "replicated", "--learning-rate", "0.002"},
                           Words{"async", "--fc", "merged", "--learning-rate", "0.002"},
                           Words{"local", "--sync-every", "2"}}) {
    Words one{"--groups", "2", "--batch", "16", "--slice", "2", "--strategy"},
        ranks{"--group-layout", "0-1:0;2-4:0", "--batch", "16", "--slice", "2", "--strategy"};
    for (Words* words : {&one, &ranks}) words->insert(words->end(), how.begin(), how.end());
    EXPECT_TRUE(weights(5, "16", ranks) == weights(1, "16", one)) << how.front() << how[2];
  }
}

}  // namespace
}  // namespace omni::test
