// These tests check what omni-run compare refuses, with which words and which exit code.
#include <gtest/gtest.h>

#include "tests/support/omni_run.hpp"
#include "tests/support/omni_run_fork.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;

class Compare : public testing::Test {
 protected:
  // Runs omni-run compare with valid options and `more`.
  Finished compare(const Words& more) {
    Words words{"compare", "--out", folder_ / "out", "--net", "lenet"};
    words.insert(words.end(), more.begin(), more.end());
    return omni_run_fork(words);
  }
  void refuses(const Words& more, const std::string& text, int exit_code = 2) {
    const Finished run = compare(more);
    EXPECT_EQ(run.exit_code, exit_code) << run.errors;
    EXPECT_NE(run.errors.find(text), std::string::npos) << run.errors;
    EXPECT_EQ(run.output, "");
  }
  TemporaryDirectory folder_;
};

TEST_F(Compare, RefusesWhatItCannotDo) {
  refuses({"--strategies", "sync", "--target", "0.9"}, "error: --data is required");
  refuses({}, "error: --data, --strategies, --target are required (omni-run compare --help)\n");
  const auto with = [](const Words& more) {
    Words words{"--data", "synthetic:64"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  refuses(with({"--strategies", "snyc", "--target", "0.9"}),
          "error: --strategies: 'snyc' is no strategy (did you mean sync?)\n");
  refuses(with({"--strategies", "sync,async:2,sync", "--target", "0.9"}),
          "error: --strategies: 'sync' is there twice (name each strategy once)\n");
  for (const char* target : {"0", "1.5", "-1", "nan"})
    refuses(with({"--strategies", "sync", "--target", target}),
            "error: --target: is not above 0 and at most 1 (--target 0.9)\n");
  refuses(with({"--strategies", "sync", "--target", "0.9", "--seeds", "0"}), "--seeds");
  refuses(with({"--strategies", "sync", "--target", "0.9", "--", "--seed=2"}),
          "error: --seed: is not for every training (compare sets it itself, or takes it before "
          "--)\n");
  refuses(with({"--strategies", "sync", "--target", "0.9", "extra"}),
          "error: unexpected argument 'extra' (options of every training come after --)\n");
  refuses(with({"--strategies", "sync", "--traget", "0.9"}),
          "error: unknown option '--traget' (did you mean '--target'?)\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out")) << "nothing was begun";
}

TEST_F(Compare, RefusesTheFolderOfAnotherComparison) {
  const Words words{"--data", "synthetic:64", "--strategies", "sync", "--target", "0.9"};
  std::filesystem::create_directory(folder_ / "out");
  put(folder_ / "out" / "compare.json",
      R"({"asked":{"net":"mlp","data":"synthetic:64"},"trainings":[]})");
  refuses(words,
          "holds another comparison: net was '\"mlp\"', not '\"lenet\"' (name another --out)");
  put(folder_ / "out" / "compare.json", R"({"asked":{"net":"lenet"},"trainings":[]})");
  refuses(words, "holds another comparison: data was ''");
  put(folder_ / "out" / "compare.json", "{}");
  refuses(words, "compare.json: is no comparison (name another --out)", 3);
}

// omni-run is started as a program, because compare starts the same program for each training.
TEST_F(Compare, EndsWhenATrainingIsRefused) {
  const Finished run = omni_run({"compare", "--out", folder_ / "out", "--net", "lenett", "--data",
                                 "synthetic:64", "--strategies", "sync", "--target", "0.9"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.errors.find("error: sync, seed 1 of 3: --net lenett: no such net"),
            std::string::npos)
      << run.errors;
  EXPECT_NE(run.errors.find("did you mean lenet.cfg?"), std::string::npos) << run.errors;
  EXPECT_NE(run.errors.find("all that it printed: "), std::string::npos) << run.errors;
}

}  // namespace
}  // namespace omni::test
