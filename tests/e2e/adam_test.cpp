// These tests use Adam from the command line: it learns, its memory is counted, and other solvers
// cannot resume its checkpoints. Resumes are in determinism_test.cpp, single steps in
// tests/unit/groups.
#include <gtest/gtest.h>

#include "tests/support/net_text.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

// The connected layer is large enough to be cut into blocks of neurons.
const std::string kAdamNet = net(8, {48, 48, 3}, "learning_rate=0.001\nmomentum=0.9\n") +
                             convolutional(8, "leaky", "stride=2\npad=1\nbatch_normalize=1\n") +
                             connected(240, "leaky") + connected(10) + layer("softmax");

class Adam : public testing::Test {
 protected:
  Adam() { put(folder_ / "net.cfg", kAdamNet); }
  Finished run(Words more) {
    more.insert(more.begin(), {"--net", folder_ / "net.cfg", "--data", "synthetic:64"});
    return omni_run(more);
  }
  static std::string checkpoint_in(const std::filesystem::path& folder) {
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().filename().string().starts_with("save-")) return entry.path();
    return "none";
  }
  TemporaryDirectory folder_;
};

TEST_F(Adam, LowersTheLossOfLenet) {
  const std::string metrics = folder_ / "metrics.jsonl";
  const Finished run =
      omni_run({"--net", "lenet", "--data", "synthetic:640", "--set", "adam=1", "--learning-rate",
                "0.001", "--max-batches", "100", "--display", "1", "--metrics", metrics});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  std::vector<double> losses;
  for (const json& line : read_metrics(metrics))
    if (line.contains("loss")) {
      losses.push_back(line["loss"]);
      EXPECT_NEAR(line["momentum"].get<double>(), 0.9, 1e-6);  // B1
      EXPECT_FALSE(line.contains("implicit_momentum") || line.contains("total_momentum")) << line;
    }
  ASSERT_EQ(losses.size(), 100u);
  EXPECT_LT(losses.back(), 0.3 * losses.front());
}

TEST_F(Adam, CountsTheMeanSquares) {
  const auto dry = [&](Words more) {
    more.insert(more.end(), {"--dry-run", "--json"});
    return json::parse(run(more).output);
  };
  const json sgd = dry({}), adam = dry({"--set", "adam=1"});
  const auto parameters = sgd["parameters"].get<std::int64_t>();
  ASSERT_GT(parameters, 1'000'000);
  EXPECT_EQ(adam["parameters"], parameters);
  EXPECT_EQ(adam["bytes"].get<std::int64_t>() - sgd["bytes"].get<std::int64_t>(), 4 * parameters);
  EXPECT_GT(adam["layers"][1]["bytes"], sgd["layers"][1]["bytes"]);
}

TEST_F(Adam, AndSgdDoNotResumeEachOther) {
  const Words brief{"--max-batches", "4", "--checkpoint-every", "4", "--no-test"};
  const auto with = [&](Words own) {
    own.insert(own.end(), brief.begin(), brief.end());
    return own;
  };
  const Words sgd{"--out", folder_ / "sgd", "--resume", "auto"};
  const Words adam{"--out", folder_ / "adam", "--resume", "auto", "--set", "adam=1"};
  ASSERT_EQ(run(with(sgd)).exit_code, 0);
  ASSERT_EQ(run(with(adam)).exit_code, 0);
  EXPECT_EQ(run(with(adam)).exit_code, 0) << "nothing left to do";

  const Finished as_adam =
      run(with({"--out", folder_ / "sgd", "--resume", "auto", "--set", "adam=1"}));
  EXPECT_EQ(as_adam.exit_code, 2);
  EXPECT_NE(as_adam.errors.find("was trained with 'SGD with momentum', this run has 'Adam' (resume "
                                "with --set adam=0)\n"),
            std::string::npos)
      << as_adam.errors;
  const Finished as_sgd = run(with({"--out", folder_ / "adam", "--resume", "auto"}));
  EXPECT_EQ(as_sgd.exit_code, 2);
  EXPECT_NE(as_sgd.errors.find("was trained with 'Adam', this run has 'SGD with momentum' "
                               "(resume with --set adam=1)\n"),
            std::string::npos)
      << as_sgd.errors;
  // A command that only predicts accepts the checkpoint, whichever solver trained it.
  const Finished valid = omni_run({"valid", "--net", folder_ / "net.cfg", "--data", "synthetic:64",
                                   "--weights", checkpoint_in(folder_ / "adam"), "-q"});
  EXPECT_EQ(valid.exit_code, 0) << valid.errors;
}

TEST_F(Adam, GroupsAreTrainedWithoutCompensation) {
  const Finished trained = run({"--set", "adam=1", "--groups", "2", "--momentum-compensation",
                                "off", "--max-batches", "10", "--no-test"});
  EXPECT_EQ(trained.exit_code, 0) << trained.errors;
}

TEST_F(Adam, SaysWhichSettingsHaveNoEffect) {
  const Finished adam = run({"--dry-run", "--set", "adam=1", "--momentum", "0.5"});
  EXPECT_EQ(adam.exit_code, 0);
  EXPECT_NE(adam.errors.find("'momentum' has no effect with adam=1; B1=0.9 takes its place\n"),
            std::string::npos)
      << adam.errors;
  const Finished sgd = run({"--dry-run", "--set", "B1=0.5"});
  EXPECT_NE(sgd.errors.find("'B1' has no effect without adam=1\n"), std::string::npos)
      << sgd.errors;
}

}  // namespace
}  // namespace omni::test
