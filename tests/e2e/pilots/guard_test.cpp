// These tests check trainings of several groups with the guard: which parameters they keep, and how
// they resume.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

// LeNet's own learning rate is too large for 6 groups, whose gradients are five updates old. Ten
// times that rate is too large for 2 groups, too.
TEST(Guarded, keeps_what_would_be_lost) {
  const auto train = [](const char* groups, const char* rate, const char* guard) {
    return omni_run({"--net", "lenet", "--data", "synthetic:6400", "--max-batches", "160", "--seed",
                     "0", "--async", "reproducible", "--groups", groups, "--learning-rate", rate,
                     "--guard", guard, "--json"});
  };
  // Without the guard the loss becomes huge, and later the outputs are the same for all samples.
  const Finished lost = train("6", "0.02", "off");
  EXPECT_TRUE(lost.exit_code == 6 || nlohmann::json::parse(lost.output)["test_loss"] > 2)
      << lost.output;
  for (const auto& [groups, rate] : {std::pair("6", "0.02"), std::pair("2", "0.2")}) {
    const Finished guarded = train(groups, rate, "on");
    ASSERT_EQ(guarded.exit_code, 0) << guarded.errors;
    EXPECT_NE(guarded.errors.find("guard: starts with 0."), std::string::npos) << guarded.errors;
    EXPECT_LT(nlohmann::json::parse(guarded.output)["test_loss"], 1.5) << guarded.errors;
    EXPECT_EQ(guarded.errors.find("back to the parameters of iteration 0, with 0.25 of the "
                                  "learning rate") != std::string::npos,
              rate == std::string("0.2"))
        << guarded.errors;
  }
}

// The checkpoint is saved after the guard has doubled the share once, and before it doubles it
// again.
TEST(Guarded, resumes_bit_for_bit) {
  const TemporaryDirectory folder;
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--net", "lenet", "--data", "synthetic:640", "--no-test", "--groups",
                             "6", "--deterministic", "--learning-rate", "0.002", "--max-batches",
                             "220", "--checkpoint-every", "40", "--keep", "8"});
    const Finished run = omni_run(more);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
  };
  train({"--out", folder / "run", "--save-weights", folder / "at-once"});
  train({"--out", folder / "again", "--save-weights", folder / "in-two", "--resume",
         folder / "run/save-000001-step-000000040"});
  EXPECT_TRUE(get(folder / "at-once") == get(folder / "in-two"));
}

// The rate is so high that the training goes back several times. A resume from any checkpoint must
// end with the same weights and tests. Going back must not delay checkpoints and tests.
TEST(Guarded, goes_back_as_without_a_stop) {
  const TemporaryDirectory folder;
  put(folder / "net.cfg",
      "[net]\nbatch=32\ninputs=6\nlearning_rate=3\nmomentum=0.9\n[connected]\noutput=32\n"
      "activation=relu\n[connected]\noutput=3\nactivation=linear\n[softmax]\n");
  constexpr int kSaveEvery = 8, kEnd = 240;
  struct Trained {
    std::string errors, weights;
    std::vector<nlohmann::json> tests;
  };
  const auto train = [&](const std::string& name, const std::string& from) {
    const std::string place = folder / name;
    std::vector<std::string> words{"--net", folder / "net.cfg", "--data",
                                   "synthetic-vectors:2000:6:3"};
    for (const auto& [option, value] : std::vector<std::pair<std::string, std::string>>{
             {"--groups", "8"},
             {"--fc", "replicated"},
             {"--max-batches", std::to_string(kEnd)},
             {"--test-every", std::to_string(kSaveEvery)},
             {"--keep", "100"},
             {"--checkpoint-every", std::to_string(kSaveEvery)},
             {"--out", place},
             {"--save-weights", place + ".weights"},
             {"--metrics", place + ".jsonl"},
             {"--resume", from},
             {"--workers", "2"}})
      words.insert(words.end(), {option, value});
    words.push_back("--deterministic");
    const Finished run = omni_run(words);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    Trained trained{run.errors, get(place + ".weights"), {}};
    for (nlohmann::json line : read_metrics(place + ".jsonl"))
      if (line.contains("test_loss")) {
        line.erase("time");
        line.erase("seconds");
        trained.tests.push_back(line);
      }
    return trained;
  };
  const Trained straight = train("straight", "none");
  std::size_t returns = 0;
  for (std::size_t at = 0; (at = straight.errors.find("back to the", at)) != std::string::npos;
       ++at)
    ++returns;
  EXPECT_GE(returns, 3u) << straight.errors;
  ASSERT_EQ(straight.tests.size(), kEnd / kSaveEvery) << "each once";
  for (const int from : {8, 32, 64, 72, 96, 160}) {
    const std::string number = std::to_string(from);
    const Trained resumed =
        train(number, folder / fmt::format("straight/save-{:06}-step-{:09}", from / kSaveEvery, from));
    EXPECT_TRUE(straight.weights == resumed.weights) << "from " << from;
    // If the training goes back when a test is due, the test comes in a later iteration.
    const auto later = [from](std::vector<nlohmann::json> tests) {
      std::erase_if(tests, [&](const auto& test) { return test["iteration"] <= from; });
      return tests;
    };
    EXPECT_EQ(later(straight.tests), later(resumed.tests)) << "from " << from;
  }
}

}  // namespace
}  // namespace omni::test
