// These tests train on ranks that share mini-batches unequally, by weights or by measured speeds.
// They must learn what one process learns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cluster/ranks.hpp"
#include "tests/support/net_text.hpp"

namespace omni::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

const std::string kNet =
    test::net(24, {12, 12, 3}, "learning_rate=0.05\nmomentum=0.9\ndecay=0.0005\n") +
    convolutional(8, "leaky", "stride=1\npad=1\nbatch_normalize=1\n") +
    layer("maxpool", "size=2\nstride=2\n") +
    convolutional(8, "linear", "pad=1\nbatch_normalize=1\n") +
    layer("dropout", "probability=0.3\n") + connected(10) + layer("softmax");

class RankShares : public testing::Test {
 protected:
  RankShares() { put(folder_ / "normalised.cfg", kNet); }

  Finished train(int ranks, Words more) {
    Words words{"--net", net_,     "--data",   "synthetic:240:10", "--workers",
                "1",     "--json", "--models", folder_ / "models"};
    words.insert(words.end(), more.begin(), more.end());
    return on_ranks(ranks, std::move(words));
  }
  // Returns the weights and the summary, which has the test's loss and accuracy.
  std::string bits(int ranks, Words more) {
    const std::string weights = folder_ / "weights";
    more.insert(more.end(), {"--deterministic", "--max-batches", "12", "--save-weights", weights});
    const Finished run = train(ranks, std::move(more));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    said_ = run.errors;
    auto summary = nlohmann::json::parse(run.output, nullptr, false);
    summary.erase("seconds");
    return get(weights) + summary.dump();
  }

  TemporaryDirectory folder_;
  std::string net_ = folder_ / "normalised.cfg", said_;
};

TEST_F(RankShares, of_three_to_one_have_the_bits_of_one_process) {
  const std::string one = bits(1, {"--slice", "3"});
  EXPECT_TRUE(bits(2, {"--slice", "3", "--rank-shares", "3:1"}) == one);
  EXPECT_THAT(said_, HasSubstr("2 ranks share a mini-batch: 18, 6 of 24 images"));
  EXPECT_TRUE(bits(2, {"--slice", "3", "--rank-shares", "1:7"}) == one);
  EXPECT_THAT(said_, HasSubstr("2 ranks share a mini-batch: 3, 21 of 24 images"));
  EXPECT_TRUE(bits(3, {"--slice", "3", "--rank-shares", "2:5:1"}) == one);
  EXPECT_THAT(said_, HasSubstr("3 ranks share a mini-batch: 6, 15, 3 of 24 images"));
}

TEST_F(RankShares, of_lenet_have_the_bits_of_one_process) {
  net_ = "lenet";
  const std::string one = bits(1, {"--batch", "48", "--slice", "8"});
  EXPECT_TRUE(bits(2, {"--batch", "48", "--slice", "8", "--rank-shares", "1:3"}) == one);
  EXPECT_TRUE(bits(3, {"--batch", "48", "--slice", "8", "--rank-shares", "3:1:2"}) == one);
}

// The mean of the gradient and the statistics of batch normalisation count images, not ranks.
TEST_F(RankShares, without_fixed_sums_learn_the_same_apart_from_rounding) {
  const auto loss = [&](int ranks, Words more) {
    more.insert(more.end(), {"--max-batches", "20"});
    const Finished run = train(ranks, std::move(more));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    const auto summary = nlohmann::json::parse(run.output, nullptr, false);
    return std::pair(summary["loss_average"].get<double>(), summary["test_loss"].get<double>());
  };
  for (const char* net : {"lenet", "normalised.cfg"}) {  // ranks divide neurons of LeNet
    net_ = net == std::string("lenet") ? net : folder_ / net;
    const auto one = loss(1, {});
    for (const auto& [ranks, weights] : {std::pair(2, "5:1"), std::pair(3, "1:6:2")}) {
      const auto shared = loss(ranks, {"--rank-shares", weights});
      EXPECT_NEAR(shared.first, one.first, 2e-3 * one.first) << net << weights;
      EXPECT_NEAR(shared.second, one.second, 5e-3 * one.second) << net << weights;
    }
  }
}

// The first group has one fast rank, the second has two slow ones, of which one is twice as fast as
// the other.
TEST_F(RankShares, place_groups_of_equal_speed) {
  for (const Words& how : {Words{"async", "--fc", "replicated", "--learning-rate", "0.002"},
                           Words{"local", "--sync-every", "2"}}) {
    net_ = "lenet";
    Words one{"--groups", "2", "--batch", "24", "--slice", "4", "--strategy"};
    one.insert(one.end(), how.begin(), how.end());
    Words ranks = one;
    ranks.insert(ranks.end(), {"--rank-shares", "3:2:1"});
    const std::string alone = bits(1, one);
    EXPECT_TRUE(bits(3, ranks) == alone) << how.front();
    EXPECT_THAT(said_, HasSubstr("2 compute groups on workers 0:0;1-2:0")) << how.front();
    ranks.back() = "1:1:2";
    EXPECT_TRUE(bits(3, ranks) == alone) << how.front();
    EXPECT_THAT(said_, HasSubstr("2 compute groups on workers 0-1:0;2:0")) << how.front();
  }
}

TEST_F(RankShares, give_a_fast_rank_more_groups) {
  net_ = "lenet";
  Words words{"--groups",        "3",     "--batch", "16",         "--strategy", "async",
              "--learning-rate", "0.002", "--fc",    "replicated", "--slice",    "8"};
  const std::string alone = bits(1, words);
  words.insert(words.end(), {"--rank-shares", "2:1"});
  EXPECT_TRUE(bits(2, words) == alone);
  EXPECT_THAT(said_, HasSubstr("3 compute groups on workers 0:0;0:0;1:0"));
}

// Which shares are measured depends on the machine, but not how a resume goes on with them.
TEST_F(RankShares, that_are_measured_stay_when_the_training_resumes) {
  const Words words{"--rank-shares", "measured", "--out",        folder_ / "run",
                    "--resume",      "auto",     "--max-batches"};
  const auto with = [&](const char* batches) {
    Words all = words;
    all.insert(all.end(), {batches, "--metrics", folder_ / "metrics"});
    return train(2, all);
  };
  const Finished first = with("10");
  EXPECT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_THAT(first.errors, ContainsRegex("shares of the 2 ranks: [0-9:a-z]*, measured [0-9]+, "));
  const Finished again = with("20");
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  const auto shares = [](const std::string& said) {
    const std::size_t from = said.find("shares of the 2 ranks: ");
    return said.substr(from, said.find(',', from) - from);
  };
  EXPECT_THAT(again.errors, HasSubstr(shares(first.errors) + ", as in the checkpoint"));
  EXPECT_THAT(get(folder_ / "metrics"), HasSubstr("{\"iteration\":10,\"rank_shares\":\""));
}

TEST_F(RankShares, of_like_ranks_on_one_host_are_not_measured) {
  const Finished run = train(2, {"--max-batches", "2"});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.errors, Not(HasSubstr("shares of the")));
  EXPECT_THAT(run.errors, HasSubstr("2 ranks share a mini-batch: 12 of 24 images on each"));
}

TEST_F(RankShares, that_do_not_fit_are_refused) {
  const auto refused = [&](int ranks, Words more, const std::string& text) {
    const Finished run = train(ranks, std::move(more));
    EXPECT_EQ(run.exit_code, 2) << run.errors;
    EXPECT_THAT(run.errors, HasSubstr(text));
  };
  refused(2, {"--rank-shares", "2:1:1"}, "--rank-shares 2:1:1: names 3 ranks, there are 2 (");
  refused(1, {"--rank-shares", "2:1"}, "--rank-shares 2:1: names 2 ranks, there is 1 (");
  refused(2, {"--rank-shares", "0:1"}, "--rank-shares: '0:1' is none of auto, measured, equal, ");
  refused(2, {"--rank-shares", "measured", "--deterministic", "--slice", "3"},
          "--rank-shares measured: it measures times, which are never the same twice (");
  refused(2, {"--rank-shares", "2:1", "--survive", "--groups", "2", "--out", folder_ / "run"},
          "--rank-shares 2:1: with --survive the number of ranks varies (");
}

}  // namespace
}  // namespace omni::test
