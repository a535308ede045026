// These tests check --auto and --groups auto over several ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/cluster/ranks.hpp"
#include "tests/support/images/image_folder.hpp"
#include "tests/support/net_text.hpp"

namespace omni::test {
namespace {

class AutoOnRanks : public testing::Test {
 protected:
  AutoOnRanks() {
    put(net_, net(12, {12, 12, 1}, "learning_rate=0.05\nmomentum=0.9\n") +
                  convolutional(6, "relu") + layer("maxpool", "size=2\nstride=2\n") +
                  connected(10) + layer("softmax"));
  }
  Words command(int iterations, Words more) {
    Words words{"--net",
                net_,
                "--data",
                data_,
                "--models",
                folder_ / "models",
                "--no-test",
                "--workers",
                "1",
                "--metrics",
                metrics_,
                "--display",
                "10",
                "--max-batches",
                std::to_string(iterations)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Returns the last loss.
  double trained(int ranks, int iterations, Words more) {
    if (std::ranges::find(more, "--resume") == more.end()) std::filesystem::remove(metrics_);
    const Finished run = on_ranks(ranks, command(iterations, std::move(more)));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    errors_ = run.errors;
    double loss = NAN;
    for (const auto& line : read_metrics(metrics_))
      if (line.contains("loss")) loss = line["loss_average"];
    return loss;
  }

  TemporaryDirectory folder_;
  std::string net_ = folder_ / "net.cfg", data_ = "synthetic:300:10";
  const std::string metrics_ = folder_ / "metrics.jsonl";
  std::string errors_;
};

// The rate may be far too large or too small. Chance is log(10) = 2.3.
TEST_F(AutoOnRanks, learn_from_any_rate) {
  for (const auto& [ranks, rate] :
       {std::pair(2, "0.05"), std::pair(2, "5"), std::pair(2, "0.00005"), std::pair(3, "5")}) {
    const double loss = trained(ranks, 1500, {"--auto", "--learning-rate", rate});
    EXPECT_LT(loss, 1) << ranks << " ranks from " << rate << "\n" << errors_;
    std::set<int> timed;
    for (const auto& line : read_metrics(metrics_))
      if (line.contains("timed_groups")) timed.insert(line["timed_groups"].get<int>());
    EXPECT_TRUE(timed.contains(1) && timed.contains(2)) << errors_;
  }
}

// Each rank would be divided between its trials and those of others, if they did not decide alike.
TEST_F(AutoOnRanks, try_groups_and_go_on_with_those_found) {
  const std::string out = folder_ / "run";
  const Words words{"--auto", "--fc", "replicated", "--out", out, "--resume", "auto"};
  trained(2, 700, words);
  const auto until = [&](int ranks, int iterations) {
    trained(ranks, iterations, words);
    EXPECT_NE(errors_.find("auto: goes on with "), std::string::npos) << errors_;
  };
  until(3, 900);
  until(1, 1000);
  until(2, 1100);
}

TEST_F(AutoOnRanks, stop_in_a_search_and_go_on) {
  const std::string errors = folder_ / "errors", out = folder_ / "run";
  const Words words{"--auto", "--out", out, "--resume", "auto"};
  const pid_t job = start_program(mpiexec(2, command(100000, words)), "/dev/null", errors);
  wait_for_text(errors, "auto: trial 2");
  kill(process_of_rank(1, out), SIGTERM);
  EXPECT_EQ(wait_for_program(job), 75) << get(errors);
  EXPECT_NE(get(errors).find("to go on:"), std::string::npos) << get(errors);
  EXPECT_LT(trained(2, 1500, words), 1) << errors_;
}

TEST_F(AutoOnRanks, end_together_if_every_trial_diverges) {
  const Finished run = on_ranks(2, command(1500, {"--auto", "--learning-rate", "1e30"}));
  EXPECT_EQ(run.exit_code, 6) << run.errors;
  EXPECT_NE(run.errors.find("lower --learning-rate"), std::string::npos) << run.errors;
}

// The damaged image is in the share of one rank. The sweep, before the first iteration, reads it.
TEST_F(AutoOnRanks, end_together_if_one_rank_fails_in_a_trial) {
  data_ = folder_ / "set";
  const std::string damaged = data_ + "/train/blue/3.jpg";
  make_image_folder(data_, 40, 10);
  put(damaged, get(damaged).substr(0, 400));
  put(net_, kImageNet);
  const Finished run = on_ranks(2, command(1500, {"--damaged-images", "0.5%", "--auto"}));
  EXPECT_EQ(run.exit_code, 3) << run.errors;
  EXPECT_NE(run.errors.find("1 of 120 training images cannot be read, more than"),
            std::string::npos)
      << run.errors;
}

// All layers are merged, or their mini-batches are cut, so ranks cannot have several groups.
TEST_F(AutoOnRanks, search_in_one_group_where_there_are_no_others) {
  const auto expect_one_group = [this](const Words& more) {
    Words words{"--auto", "--learning-rate", "0.01"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_LT(trained(2, 600, words), 2) << errors_;
    for (const auto& line : read_metrics(metrics_)) EXPECT_EQ(line.value("groups", 1), 1) << line;
  };
  expect_one_group({"--subdivisions", "2"});
  put(net_, net(12, {12, 12, 1}, "learning_rate=0.05\nmomentum=0.9\n") + connected(30, "tanh") +
                connected(10) + layer("softmax"));
  expect_one_group({});
}

TEST_F(AutoOnRanks, plan_groups_as_nodes) {
  for (const int ranks : {2, 3}) {
    trained(ranks, 20, {"--groups", "auto", "--learning-rate", "0.01"});
    double least = INFINITY;
    int best = 0, chosen = 0;
    std::set<int> planned;
    for (const auto& line : read_metrics(metrics_)) {
      if (!line.contains("planned_groups")) continue;
      const int groups = line["planned_groups"];
      planned.insert(groups);
      if (line["chosen"].get<bool>()) chosen = groups;
      const double time = line["predicted_seconds"].get<double>() * std::sqrt(groups);
      if (time < least) least = time, best = groups;
    }
    EXPECT_EQ(planned, (std::set<int>{1, ranks}));
    EXPECT_EQ(chosen, best) << errors_;
  }
}

TEST_F(AutoOnRanks, grow_with_sma) {
  trained(2, 500, {"--strategy", "sma", "--groups", "auto", "--learning-rate", "0.01"});
  EXPECT_NE(errors_.find("groups: 2 train "), std::string::npos) << errors_;
  EXPECT_NE(errors_.find(" are kept"), std::string::npos) << errors_;
}

}  // namespace
}  // namespace omni::test
