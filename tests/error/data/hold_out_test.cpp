// These tests stop a training with --hold-out, and resume it. They check which samples valid and
// predict use, and the warnings about classes with too few samples.
#include <gtest/gtest.h>

#include "runtime/data/dataset.hpp"
#include "runtime/data/open.hpp"
#include "tests/support/images/image_folder.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class HeldOut : public testing::Test {
 protected:
  HeldOut() {
    put(folder_ / "net.cfg", kImageNet);
    make_image_folder(folder_ / "set", 30, 2);
  }
  std::string at(const std::string& name) const { return folder_ / name; }
  Finished run(Words words, const Words& more) const {
    words.insert(words.end(), {"--net", at("net.cfg"), "--workers", "1"});
    words.insert(words.end(), more.begin(), more.end());
    return omni_run(words);
  }

  TemporaryDirectory folder_;
};

TEST_F(HeldOut, IsTheSameAfterAStopAndForOtherCommands) {
  const Words data{"--data", at("set/train"), "--hold-out", "0.2"},
      saved{"--out", at("run"), "--checkpoint-every", "100", "--resume", "auto", "--deterministic"};
  const auto train = [&](const std::string& batches, Words more, const std::string& share = "0.2",
                         const std::string& seed = "7") {
    Words words{"--data", at("set/train"), "--hold-out", share, "--seed",
                seed,     "--max-batches", batches};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, {});
  };
  const Finished straight =
      train("60", {"--save-weights", at("straight"), "--deterministic", "--json"});
  ASSERT_EQ(straight.exit_code, 0) << straight.errors;
  EXPECT_NE(straight.errors.find("data: 90 image files, 3 classes, from " + at("set/train") +
                                 "; 72 to train on, 18 held out to test\n--hold-out 0.2: seed 7 "
                                 "draws what is held out"),
            std::string::npos)
      << straight.errors;
  const auto result = nlohmann::json::parse(straight.output);

  ASSERT_EQ(train("30", saved).exit_code, 0);
  const Finished other = train("60", saved, "0.3");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.errors.find("#hold-out=0.2,seed=7"), std::string::npos) << other.errors;
  EXPECT_NE(other.errors.find("#hold-out=0.3,seed=7"), std::string::npos) << other.errors;
  Words resumed = saved;
  resumed.insert(resumed.end(), {"--save-weights", at("resumed")});
  // The held-out samples follow from the checkpoint's seed, not from the command line's seed.
  const Finished gone_on = train("60", resumed, "0.2", "8");
  ASSERT_EQ(gone_on.exit_code, 0) << gone_on.errors;
  EXPECT_TRUE(get(at("straight")) == get(at("resumed")));

  const Finished valid = run({"valid", "--weights", at("straight"), "--seed", "7", "--json"}, data);
  ASSERT_EQ(valid.exit_code, 0) << valid.errors;
  const auto held = nlohmann::json::parse(valid.output);
  EXPECT_EQ(held["images"], 18);
  EXPECT_NEAR(held["test_loss"], result["test_loss"], 1e-3);
  // predict prints names of classes without a test set.
  const Words predict{"predict", "--weights", at("straight"), "--data", at("set/train")};
  const Finished named = run(predict, {at("set/train/red/0.jpg"), "--top", "3"});
  ASSERT_EQ(named.exit_code, 0) << named.errors;
  EXPECT_NE(named.output.find("%: green\n"), std::string::npos) << named.output;
  EXPECT_EQ(run(predict, {"--index", "0"}).exit_code, 2);
  EXPECT_EQ(run(predict, {"--index", "17", "--hold-out", "0.2"}).exit_code, 0);

  // A warning says when test samples may have been used in the training.
  const auto warned = [&](const std::string& seed) {
    const Finished tested = run({"valid", "--weights", at("run"), "--seed", seed}, data);
    EXPECT_EQ(tested.exit_code, 0) << tested.errors;
    return tested.errors.find("may be among the test samples") != std::string::npos;
  };
  EXPECT_FALSE(warned("7"));
  EXPECT_TRUE(warned("8"));
}

TEST_F(HeldOut, DamagedImagesOfBothPartsAreSkipped) {
  const auto train = [&](const Words& more) {
    Words words{
        "--data", at("set/train"),   "--hold-out", "0.2", "--seed", "7", "--epochs", "3", "--batch",
        "8",      "--deterministic", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, {});
  };
  const auto parts =
      open_dataset({.source = at("set/train"), .net_input = {}, .seed = 7, .hold_out = 0.2});
  ASSERT_TRUE(parts);
  const Words damaged{parts->train->name_of(3), parts->test->name_of(2)};
  for (const std::string& path : damaged) put(path, get(path).substr(0, 400));
  EXPECT_EQ(train({}).exit_code, 3) << "1 of 18 held out is more than 1 %";

  const Words some{"--damaged-images", "10%"};
  const auto saving = [&](const char* name, Words more) {
    more.insert(more.end(), some.begin(), some.end());
    more.insert(more.end(), {"--save-weights", at(name)});
    Finished trained = train(more);
    EXPECT_EQ(trained.exit_code, 0) << trained.errors;
    return trained;
  };
  const Finished straight = saving("straight", {});
  const auto result = nlohmann::json::parse(straight.output);
  EXPECT_EQ(result["damaged_images"], 1);
  EXPECT_EQ(result["damaged_test_images"], 1);
  for (const std::string& path : damaged)
    EXPECT_NE(straight.errors.find("warning: skipped: " + path), std::string::npos)
        << straight.errors;
  const Words out{"--out", at("run"), "--checkpoint-every", "4", "--resume", "auto"};
  Words first = out;
  first.insert(first.end(), {"--max-batches", "10"});
  saving("part", first);
  const Finished resumed = saving("resumed", out);
  EXPECT_NE(resumed.errors.find(" at iteration 10\n"), std::string::npos) << resumed.errors;
  EXPECT_TRUE(get(at("straight")) == get(at("resumed")));
  EXPECT_EQ(nlohmann::json::parse(resumed.output)["damaged_images"], 1);

  Words valid{"valid",  "--weights", at("straight"), "--data", at("set/train"),
              "--seed", "7",         "--hold-out",   "0.2",    "--json"};
  EXPECT_EQ(run(valid, {}).exit_code, 3);
  const auto tested = nlohmann::json::parse(run(valid, some).output);
  EXPECT_EQ(tested["images"], 17);
  EXPECT_EQ(tested["damaged_test_images"], 1);
}

TEST_F(HeldOut, AJobIsCheckedAsItsTraining) {
  const Words job{"slurm", "--net", at("net.cfg"), "--data", at("set/train")};
  const Finished refused = omni_run(job);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.errors.find("or give --hold-out 0.1"), std::string::npos) << refused.errors;
  Words held = job;
  held.insert(held.end(), {"--hold-out", "0.2"});
  const Finished written = omni_run(held);
  EXPECT_EQ(written.exit_code, 0) << written.errors;
  EXPECT_NE(written.output.find(" --hold-out 0.2"), std::string::npos) << written.output;
}

TEST_F(HeldOut, ClassesWithoutSamplesAreSaidAtTheStart) {
  fs::remove_all(at("set/val/green"));
  fs::remove_all(at("set/val/red"));
  fs::create_directories(at("set/val/red"));  // as good as none
  const Finished folders = run({"--data", at("set"), "--max-batches", "1"}, {});
  ASSERT_EQ(folders.exit_code, 0) << folders.errors;
  const std::size_t said = folders.errors.find(
      "warning: the test set has no sample of 2 of 3 classes: 'green', 'red' (their accuracy is "
      "not measured)\n");
  ASSERT_NE(said, std::string::npos) << folders.errors;
  EXPECT_LT(said, folders.errors.find("\n1, 0.")) << "before anything is trained";

  put(folder_ / "a", "set/train/red/0.jpg 0\nset/train/red/1.jpg 0\n");
  put(folder_ / "b", "set/train/red/0.jpg 0\nset/train/blue/1.jpg 2\n");
  const Finished lists = run({"--data", at("a") + "," + at("b"), "--max-batches", "1"}, {});
  ASSERT_EQ(lists.exit_code, 0) << lists.errors;
  EXPECT_NE(lists.errors.find("warning: the training set has no sample of 1 of 3 classes: class 2 "
                              "(they cannot be learned)\n"),
            std::string::npos)
      << lists.errors;
  EXPECT_EQ(lists.errors.find("class 1"), std::string::npos) << lists.errors;
}

}  // namespace
}  // namespace omni::test
