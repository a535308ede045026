// These tests check options that pilots add. They decide when a training is complete and which
// checkpoints are kept.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "scheduling/checkpoint/checkpoint_store.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;

class PilotOptionsTest : public testing::Test {
 protected:
  Finished train(std::vector<std::string> more) {
    std::vector<std::string> all{"--net", "lenet",  "--batch", "8",     "--test-every",
                                 "2",     "--data", data_,     "--out", run_};
    all.insert(all.end(), more.begin(), more.end());
    return omni_run(all);
  }
  TemporaryDirectory folder_;
  const fs::path run_ = folder_ / "run";
  std::string data_ = "synthetic:40";
};

// With a rate of nearly 0 no test is better than the first one, so the training ends after two more
// tests.
TEST_F(PilotOptionsTest, PatienceEndsATrainingInOrder) {
  const std::vector<std::string> words{"--max-batches",    "40", "--learning-rate", "1e-30",
                                       "--patience-tests", "2",  "--resume",        "auto"};
  const Finished first = train(words);
  EXPECT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_NE(first.errors.find("for 2 tests"), std::string::npos) << first.errors;
  std::size_t tests = 0;
  for (std::size_t at = 0; (at = first.errors.find(", test accuracy ", at)) != std::string::npos;
       ++at)
    ++tests;
  EXPECT_EQ(tests, 3u) << first.errors;
  const auto saved = load_latest_checkpoint(run_);
  ASSERT_TRUE(saved && *saved);
  EXPECT_EQ((*saved)->step, 6u);
  const Finished again = train(words);
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ((*load_latest_checkpoint(run_))->step, 6u) << "it was complete";
}

TEST_F(PilotOptionsTest, TheBestCheckpointStays) {
  const Finished run = train({"--max-batches", "12", "--learning-rate", "1e-30", "--keep-best",
                              "--checkpoint-every", "4"});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  ASSERT_TRUE(fs::is_symlink(run_ / "best"));
  const auto best = load_checkpoint(run_ / "best");
  ASSERT_TRUE(best) << best.error().message();
  EXPECT_EQ(best->step, 2u) << "the first of equal ones";
  int saved = 0;
  for (const auto& entry : fs::directory_iterator(run_))
    saved += entry.path().filename().string().starts_with("save-");
  EXPECT_EQ(saved, 3) << "the best, and the newest two";
  const Finished tested =
      omni_run({"valid", "--net", "lenet", "--data", "synthetic:40", "--weights", run_ / "best"});
  EXPECT_EQ(tested.exit_code, 0) << tested.errors;
}

// The checkpoint of iteration 4 is saved before the test of iteration 4.
TEST_F(PilotOptionsTest, AnInterruptedTestCountsLikeAnyOther) {
  std::vector<std::string> words{"--learning-rate", "1e-30", "--keep-best", "--checkpoint-every",
                                 "2"};
  const auto train_with = [&](std::vector<std::string> more) {
    more.insert(more.end(), words.begin(), words.end());
    const Finished run = train(more);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return (*load_latest_checkpoint(run_))->step;
  };
  for (const bool metrics : {false, true}) {  // which have the test already
    if (metrics) words.insert(words.end(), {"--metrics", folder_ / "metrics.jsonl"});
    fs::remove_all(run_);
    EXPECT_EQ(train_with({"--max-batches", "5", "--patience-tests", "9"}), 5u);
    EXPECT_EQ(train_with({"--max-batches", "40", "--patience-tests", "2", "--resume",
                          run_ / "save-000002-step-000000004"}),
              6u)
        << metrics;
    EXPECT_EQ(load_checkpoint(run_ / "best")->step, 2u);
  }
}

// With other data, the first test counts as the best one, and the training ends after two more
// tests.
TEST_F(PilotOptionsTest, WithOtherDataPatienceBeginsAnew) {
  const std::vector<std::string> words{"--max-batches",    "40", "--learning-rate", "1e-30",
                                       "--patience-tests", "2",  "--resume",        "auto"};
  ASSERT_EQ(train(words).exit_code, 0);
  std::vector<std::string> other = words;
  other.push_back("--other-data");
  data_ = "synthetic:48";
  const Finished run = train(other);
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ((*load_latest_checkpoint(run_))->step, 12u) << run.errors;
}

TEST_F(PilotOptionsTest, WithoutTestsTheyAreRefused) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--keep-best"}, {"--patience-tests", "3"}}) {
    const Finished run =
        omni_run({"--net", "lenet", "--batch", "8", "--data", "synthetic:40", "--max-batches", "2",
                  "--no-test", words[0], words.size() > 1 ? words[1] : "-q"});
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_NE(run.errors.find(words[0] + " excludes --no-test"), std::string::npos) << run.errors;
  }
  EXPECT_EQ(train({"--patience-tests", "0"}).exit_code, 2);
}

}  // namespace
}  // namespace omni::test
