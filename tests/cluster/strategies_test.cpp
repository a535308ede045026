// These tests check that groups on several ranks learn what groups in one process learn.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cluster/ranks.hpp"
#include "tests/support/net_text.hpp"

namespace omni::test {
namespace {

class GroupsOnRanks : public testing::Test {
 protected:
  Words training(int iterations, Words more = {}) {
    Words words{"--net",         net_,
                "--data",        "synthetic:480:10",
                "--batch",       batch_,
                "--models",      folder_ / "models",
                "--slice",       slice_,
                "--workers",     "1",
                "--max-batches", std::to_string(iterations)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Returns the summary of a training, and a hash of its final weights.
  nlohmann::json result(int ranks, int iterations, Words more) {
    const std::string weights = folder_ / "weights";
    more.insert(more.end(), {"--deterministic", "--json", "--save-weights", weights});
    const Finished run = on_ranks(ranks, training(iterations, std::move(more)));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    auto summary = nlohmann::json::parse(run.output, nullptr, false);
    summary["weights"] = std::hash<std::string>()(get(weights));
    return summary;
  }
  static void expect_same(const nlohmann::json& one, const nlohmann::json& other) {
    for (const char* what : {"iterations", "images", "loss_average", "test_accuracy", "weights"})
      EXPECT_EQ(one[what], other[what]) << what << ": " << one << other;
  }

  // Returns the number of slices whose loss each rank has computed, in training or in tests.
  static std::vector<int> slices_of(int ranks, const std::string& trace, bool training) {
    std::vector<int> counts;
    for (int rank = 0; rank < ranks; ++rank) {
      int codelet = -1, count = 0;
      for (const auto& line : read_metrics(trace + fmt::format("/rank-{}.jsonl", rank)))
        if (line.value("name", "") == "softmax_forward")
          codelet = line["codelet"];
        else if (line.contains("task") && line.contains("iteration") == training)
          count += line["codelet"] == codelet ? 1 : 0;
      counts.push_back(count);
    }
    return counts;
  }

  // With this learning rate the loss does not rise.
  static constexpr const char* kSafe = "0.002";

  TemporaryDirectory folder_;
  std::string net_ = "lenet", slice_ = "8", batch_ = "16";
};

TEST_F(GroupsOnRanks, have_the_bits_of_one_process) {
  slice_ = "1";
  for (const Words& how : {Words{"sma"}, Words{"sma", "--sync-every", "3", "--set", "adam=1"},
                           Words{"local", "--sync-every", "2", "--outer-momentum", "0.5"},
                           Words{"elastic", "--sync-every", "2"}})
    for (const int groups : {2, 4}) {
      Words words{"--groups", std::to_string(groups), "--strategy"};
      words.insert(words.end(), how.begin(), how.end());
      const auto one = result(1, 18, words);
      expect_same(result(groups, 18, words), one);
    }
}

// Groups update in turn. The ranks on which the groups are make no difference.
TEST_F(GroupsOnRanks, asynchronous_ones_have_them_in_turn) {
  for (const char* connected : {"merged", "replicated"})
    for (const auto& [groups, ranks] : {std::pair(2, 2), std::pair(4, 2), std::pair(4, 4)}) {
      const Words words{"--strategy", "async",     "--groups", std::to_string(groups), "--fc",
                        connected,    "--display", "1",        "--learning-rate",      kSafe};
      Words told = words;
      const std::string metrics = folder_ / fmt::format("{}{}{}", connected, groups, ranks);
      told.insert(told.end(), {"--metrics", metrics});
      expect_same(result(ranks, 20, told), result(1, 20, words));
      for (const auto& line : read_metrics(metrics)) {
        if (!line.contains("loss")) continue;
        EXPECT_EQ(line["staleness"], std::min<int>(line["iteration"].get<int>() - 1, groups - 1));
        EXPECT_EQ(line.value("fc_staleness", 0), 0);
      }
    }
}

// The merged layers of a group on another rank read their inputs again when their parameters are
// updated.
TEST_F(GroupsOnRanks, have_the_bits_of_one_process_with_large_merged_layers) {
  net_ = folder_ / "large.cfg";
  put(net_, test::net(16, {8, 8, 3}, "learning_rate=0.01\nmomentum=0.9\n") +
                convolutional(4, "relu", "") + connected(1024, "tanh") +
                layer("dropout", "probability=0.4\n") + connected(1040) + connected(10) +
                layer("softmax"));
  slice_ = "16";
  const Words words{"--groups", "2", "--fc", "merged"};
  expect_same(result(2, 12, words), result(1, 12, words));
}

TEST_F(GroupsOnRanks, have_the_bits_of_one_process_in_several_passes) {
  slice_ = "4";
  const Words words{"--groups", "2", "--fc", "replicated", "--subdivisions", "2"};
  expect_same(result(2, 12, words), result(1, 12, words));
}

// Between two updates of a group, the other groups make groups - 1 updates on average, whatever
// their speeds. On four ranks, each of two groups has two ranks.
TEST_F(GroupsOnRanks, asynchronous_ones_step_as_gradients_arrive) {
  for (const char* connected : {"merged", "replicated"})
    for (const int groups : {2, 4}) {
      const std::string metrics = folder_ / fmt::format("{}{}", connected, groups);
      const Finished run = on_ranks(
          4, training(400, {"--groups", std::to_string(groups), "--fc", connected, "--guard", "off",
                            "--learning-rate", "0.001", "--metrics", metrics, "--display", "1"}));
      ASSERT_EQ(run.exit_code, 0) << run.errors;
      double staleness = 0, updates = 0;
      for (const auto& line : read_metrics(metrics)) {
        if (!line.contains("loss")) continue;
        staleness += line["staleness"].get<double>();
        EXPECT_EQ(line.value("fc_staleness", 0), 0);
        ++updates;
      }
      EXPECT_EQ(updates, 400);
      EXPECT_LE(staleness / updates, groups - 1);
      EXPECT_GT(staleness / updates, 0.5 * (groups - 1));
    }
}

// The ranks of a group share each of its mini-batches. The owners of the parameters add up their
// gradients.
TEST_F(GroupsOnRanks, of_several_ranks_have_the_bits_of_one_process) {
  struct Layout {
    int ranks, groups;
    std::string slice, layout;
  };
  for (const char* connected : {"merged", "replicated"})
    for (const Layout& each :
         {Layout{4, 2, "8", "0-1:0;2-3:0"}, Layout{4, 2, "2", "0-1:0;2-3:0"},
          Layout{3, 2, "4", "0-1:0;2:0"}, Layout{4, 3, "4", "0:0;1:0;2-3:0"}}) {
      slice_ = each.slice;
      const std::string groups = std::to_string(each.groups);
      const auto one =
          result(1, 20, {"--groups", groups, "--fc", connected, "--learning-rate", kSafe});
      const std::string metrics = folder_ / (connected + each.layout + each.slice);
      expect_same(result(each.ranks, 20,
                         {"--group-layout", each.layout, "--fc", connected, "--display", "1",
                          "--metrics", metrics, "--learning-rate", kSafe}),
                  one);
      for (const auto& line : read_metrics(metrics)) {
        if (!line.contains("loss")) continue;
        EXPECT_EQ(line["staleness"],
                  std::min<int>(line["iteration"].get<int>() - 1, each.groups - 1));
        EXPECT_EQ(line.value("fc_staleness", 0), 0);
      }
    }
}

// The ranks of a group update parts of the group's model, and contribute these parts to meetings.
TEST_F(GroupsOnRanks, own_models_of_several_ranks_have_the_bits_of_one_process) {
  slice_ = "1", batch_ = "32";
  struct Layout {
    int ranks, groups;
    const char* layout;
  };
  for (const Words& how : {Words{"sma"}, Words{"sma", "--sync-every", "3", "--set", "adam=1"},
                           Words{"local", "--sync-every", "2", "--outer-momentum", "0.5"},
                           Words{"elastic", "--sync-every", "2"}})
    for (const Layout& each :
         {Layout{4, 2, "0-1:0;2-3:0"}, Layout{3, 2, "0:0;1-2:0"}, Layout{4, 3, "0:0;1-2:0;3:0"}}) {
      Words one{"--groups", std::to_string(each.groups), "--strategy"},
          ranks{"--group-layout", each.layout, "--strategy"};
      for (Words* words : {&one, &ranks}) words->insert(words->end(), how.begin(), how.end());
      expect_same(result(each.ranks, 18, ranks), result(1, 18, one));
    }
  const Words one{"--strategy", "local", "--groups", "1", "--sync-every", "2"};
  expect_same(result(2, 12, one), result(1, 12, one));
  expect_same(
      result(2, 12, {"--strategy", "local", "--group-layout", "0-1:0", "--sync-every", "2"}),
      result(1, 12, one));
}

// During the cold start all ranks are one group.
TEST_F(GroupsOnRanks, have_the_bits_of_one_process_after_a_cold_start) {
  slice_ = "4";
  for (const char* connected : {"merged", "replicated"}) {
    const Words words{"--groups", "2", "--fc", connected, "--cold-start", "6"};
    const auto one = result(1, 20, words);
    for (const int ranks : {2, 4}) expect_same(result(ranks, 20, words), one);
  }
}

// Groups have mini-batches of different sizes, which take several passes.
TEST_F(GroupsOnRanks, hogbatch_has_them_in_turn) {
  for (const Words& how : {Words{"hogbatch", "--group-batches", "4,16"},
                           Words{"adaptive", "--group-batches", "4:4-16,16:8-16"}}) {
    Words words{"--groups", "2", "--learning-rate", "0.001", "--strategy"};
    words.insert(words.end(), how.begin(), how.end());
    slice_ = "4";
    expect_same(result(2, 12, words), result(1, 12, words));
    slice_ = "2";
    expect_same(result(4, 12, words), result(1, 12, words));
  }
}

TEST_F(GroupsOnRanks, take_mini_batches_as_they_are_free) {
  slice_ = "1";
  for (const Words& how : {Words{"adaptive", "--group-batches", "4:4-16,16:8-16"},
                           Words{"elastic", "--sync-every", "2"}}) {
    Words words{"--groups", "2", "--learning-rate", "0.001", "--json", "--strategy"};
    words.insert(words.end(), how.begin(), how.end());
    const Finished run = on_ranks(2, training(40, words));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_EQ(nlohmann::json::parse(run.output, nullptr, false)["images"], 40 * 16) << run.output;
  }
}

// A pass has 3 images, of which rank 1 computes 1 and rank 2 computes 2. Their group's mini-batches
// shrink, equally on both ranks.
TEST_F(GroupsOnRanks, of_unlike_shares_take_mini_batches_as_they_are_free) {
  slice_ = "1", batch_ = "48";
  const std::string trace = folder_ / "trace";
  const Finished run = on_ranks(
      3, training(96, {"--group-layout", "0:0;1-2:0", "--learning-rate", "0.001", "--strategy",
                       "elastic", "--sync-every", "8", "--no-test", "--trace", trace}));
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  const std::vector<int> slices = slices_of(3, trace, true);
  EXPECT_EQ(2 * slices[1], slices[2]);
  EXPECT_EQ(slices[0] + slices[1] + slices[2], 96 * 48);
}

// Without --deterministic, the weights of a layer are cut into blocks. Each rank updates and
// averages some of them.
TEST_F(GroupsOnRanks, of_several_ranks_learn_with_blocks_as_one_process_does) {
  const auto loss = [&](int ranks, const char* option, const char* value) {
    const Finished run = on_ranks(ranks, training(60, {option, value, "--strategy", "sma",
                                                       "--learning-rate", "0.005", "--json"}));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return nlohmann::json::parse(run.output, nullptr, false)["test_loss"].get<double>();
  };
  const double one = loss(1, "--groups", "2"), four = loss(4, "--group-layout", "0-1:0;2-3:0");
  EXPECT_NEAR(four, one, 0.01 * one);
  EXPECT_LT(one, 2);
}

// On two ranks, the sums of two groups each are added up, which rounds differently.
TEST_F(GroupsOnRanks, learn_alike_where_a_rank_has_several) {
  const Words words{"--groups", "4", "--strategy", "sma"};
  const auto one = result(1, 24, words), two = result(2, 24, words);
  EXPECT_NE(one["weights"], two["weights"]);
  const double loss = one["loss_average"];
  EXPECT_NEAR(two["loss_average"], loss, 1e-3 * loss);
}

// The checkpoint is saved between two meetings, when some of the groups have contributed.
TEST_F(GroupsOnRanks, go_on_from_checkpoints_of_other_numbers_of_ranks) {
  slice_ = "1", batch_ = "32";  // two ranks share a pass of elastic groups
  for (const char* strategy : {"sma", "local", "elastic", "async"})
    for (const auto& [before, after] : {std::pair(1, 2), std::pair(2, 4), std::pair(4, 1)}) {
      Words words{"--groups", "2", "--strategy", strategy};
      if (strategy != std::string("async")) words.insert(words.end(), {"--sync-every", "2"});
      const auto straight = result(1, 17, words);
      const std::string out = folder_ / "run";
      Words resumed = words;
      resumed.insert(resumed.end(), {"--out", out, "--resume", "auto"});
      result(before, 7, resumed);
      expect_same(result(after, 17, resumed), straight);
      std::filesystem::remove_all(out);
      if (after != 4) continue;
      words.insert(words.end(), {"--out", out, "--checkpoint-every", "3"});
      expect_same(result(after, 17, words), straight);  // it goes on after each save
      std::filesystem::remove_all(out);
    }
}

TEST_F(GroupsOnRanks, stop_together_and_go_on) {
  const std::string errors = folder_ / "errors", out = folder_ / "run";
  const Words how{"--groups", "2", "--strategy", "sma", "--deterministic", "--no-test"};
  Words endless = training(1000000, how);
  endless.insert(endless.end(), {"--out", out, "--display", "5"});
  const pid_t job = start_program(mpiexec(2, endless), "/dev/null", errors);
  wait_for_text(errors, "\n20, ");
  kill(process_of_rank(1, out), SIGTERM);
  EXPECT_EQ(wait_for_program(job), 75) << get(errors);
  const int stopped = number_after(get(errors), "stopped after iteration ");
  ASSERT_GE(stopped, 20);
  Words more = how;
  const auto straight = result(2, stopped + 7, more);
  more.insert(more.end(), {"--out", out, "--resume", "auto"});
  EXPECT_EQ(result(2, stopped + 7, more)["weights"], straight["weights"]);
}

// Each group's model takes 64 MiB. The first rank writes the models of other ranks part by part.
TEST_F(GroupsOnRanks, save_without_memory_for_the_models_of_others) {
  put(folder_ / "wide.cfg",
      "[net]\nbatch=2\ninputs=4096\nlearning_rate=0.001\n[connected]\noutput=4096\n"
      "[connected]\noutput=2\n[softmax]\n");
  const auto most = [&](Words more) {
    more.insert(more.end(), {"--net", folder_ / "wide.cfg", "--data", "synthetic:8:2", "--workers",
                             "1", "--strategy", "sma", "--groups", "2", "--max-batches", "4",
                             "--no-test", "--models", folder_ / "models"});
    const Finished run = on_ranks(2, std::move(more));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    const std::size_t end = run.errors.find(" MiB at most");
    return std::stoi(run.errors.substr(run.errors.rfind(' ', end - 1) + 1));
  };
  const int without = most({});
  EXPECT_LT(most({"--out", folder_ / "run", "--checkpoint-every", "4"}), without + 32);
}

TEST_F(GroupsOnRanks, diverge_together) {
  const Finished run =
      on_ranks(2, training(60, {"--groups", "2", "--strategy", "sma", "--learning-rate", "1e30"}));
  EXPECT_EQ(run.exit_code, 6) << run.errors;
  EXPECT_NE(run.errors.find("is not a finite number"), std::string::npos) << run.errors;
}

// If each group has a rank of its own, groups take turns with the mini-batches of the test set.
// Otherwise the ranks of the first group test alone.
TEST_F(GroupsOnRanks, test_in_turn) {
  constexpr int kTasks = 6 * 2;  // slices of 96 images
  const auto tested = [&](int ranks, Words words) {
    const std::string trace = folder_ / fmt::format("trace{}", ranks);
    words.insert(words.end(), {"--trace", trace, "--guard", "off"});  // which compares, too
    const Finished run = on_ranks(ranks, training(4, words));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_NE(run.errors.find(" on 96 images"), std::string::npos) << run.errors;
    return slices_of(ranks, trace, false);
  };
  EXPECT_EQ(tested(2, {"--groups", "2"}), (std::vector{kTasks / 2, kTasks / 2}));
  EXPECT_EQ(tested(3, {"--group-layout", "0-1:0;2:0"}), (std::vector{kTasks / 2, kTasks / 2, 0}));
}

TEST_F(GroupsOnRanks, are_placed_and_reported) {
  const Finished run =
      on_ranks(2, training(12, {"--strategy", "local", "--group-layout", "0:0;1:0;1:0", "--metrics",
                                folder_ / "metrics", "--display", "1", "--no-test"}));
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_NE(run.errors.find("3 compute groups on workers 0:0;1:0;1:0"), std::string::npos)
      << run.errors;
  std::map<int, int> updates;
  for (const auto& line : read_metrics(folder_ / "metrics"))
    if (line.contains("loss")) ++updates[line["group"].get<int>()];
  EXPECT_EQ(updates, (std::map<int, int>{{0, 4}, {1, 4}, {2, 4}}));
}

std::string normalised(const TemporaryDirectory& folder) {
  put(folder / "own.cfg",
      "[net]\nbatch=8\nheight=8\nwidth=8\nchannels=3\nlearning_rate=0.01\n[convolutional]\n"
      "filters=4\nsize=3\nbatch_normalize=1\nactivation=leaky\n[connected]\noutput=10\n[softmax]"
      "\n");
  return folder / "own.cfg";
}

// Batch statistics are of the group's whole mini-batch, and all ranks of the group make the same
// updates with them.
TEST_F(GroupsOnRanks, of_several_ranks_normalise_as_on_one_each) {
  const std::string own = normalised(folder_);
  const auto weights = [&](int ranks, const char* option, const char* value) {
    const std::string file = folder_ / "weights";
    const Finished run =
        on_ranks(ranks, {"--net", own, "--data", "synthetic:480:10", "--groups", "2", option, value,
                         "--slice", "2", "--workers", "1", "--deterministic", "--max-batches", "30",
                         "--save-weights", file});
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return get(file);
  };
  for (const auto& [option, value] :
       {std::pair("--fc", "merged"), {"--fc", "replicated"}, {"--strategy", "sma"}})
    EXPECT_EQ(weights(4, option, value), weights(2, option, value));
}

// Each rank has running statistics of its own. The test uses their mean.
TEST_F(GroupsOnRanks, average_running_statistics) {
  const std::string own = normalised(folder_), data = "synthetic:480:10",
                    weights = folder_ / "weights";
  const auto loss = [](const Finished& run) {
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return nlohmann::json::parse(run.output, nullptr, false)["test_loss"].get<double>();
  };
  const Finished run =
      on_ranks(2, {"--net", own, "--data", data, "--strategy", "local", "--groups", "2", "--json",
                   "--max-batches", "50", "--workers", "1", "--save-weights", weights});
  // Both ranks test with the statistics that the first rank saves.
  const Finished saved = on_ranks(
      1, {"valid", "--net", own, "--data", data, "--weights", weights, "--json", "--workers", "1"});
  EXPECT_NEAR(loss(run), loss(saved), 1e-6);
}

}  // namespace
}  // namespace omni::test
