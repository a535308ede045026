// Training on image files, from the folder to the trained net.
#include <gtest/gtest.h>

#include "tests/support/image_folder.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;

class ImageFiles : public testing::Test {
 protected:
  ImageFiles() {
    put(folder_ / "net.cfg", kImageNet);
    make_image_folder(folder_ / "set");
  }
  Finished run(Words words) const {
    words.insert(words.end(), {"--net", folder_ / "net.cfg"});
    if (words[0] != "predict") words.insert(words.end(), {"--data", folder_ / "set"});
    return omni_run(std::move(words));
  }
  // The weights after so many iterations, as bytes.
  std::string train(Words words) const {
    const std::string weights = folder_ / "weights";
    words.insert(words.end(), {"--save-weights", weights, "--deterministic", "-q"});
    const Finished trained = run(std::move(words));
    EXPECT_EQ(trained.exit_code, 0) << trained.errors;
    return get(weights);
  }

  TemporaryDirectory folder_;
};

TEST_F(ImageFiles, AreLearned) {
  const std::string weights = folder_ / "weights", metrics = folder_ / "metrics";
  const Finished training = run({"--epochs", "12", "--display", "1", "--save-weights", weights,
                                 "--metrics", metrics, "--json"});
  ASSERT_EQ(training.exit_code, 0) << training.errors;
  EXPECT_NE(training.errors.find("data: 90 image files, 3 classes, from "), std::string::npos)
      << training.errors;
  const auto lines = read_metrics(metrics);
  EXPECT_GT(lines.front()["loss"], 0.9);
  EXPECT_LT(nlohmann::json::parse(training.output)["loss_average"], 0.5);
  EXPECT_GT(nlohmann::json::parse(training.output)["test_accuracy"], 0.95);

  const Finished valid = run({"valid", "--weights", weights, "--json"});
  ASSERT_EQ(valid.exit_code, 0) << valid.errors;
  EXPECT_EQ(nlohmann::json::parse(valid.output)["images"], 30);
  EXPECT_GT(nlohmann::json::parse(valid.output)["test_accuracy"], 0.95);

  // A file by its name is the same as that of the set.
  const std::string file = folder_ / "set/val/green/30.jpg";
  const auto named = nlohmann::json::parse(
      run({"predict", "--weights", weights, "--data", folder_ / "set", file, "--json"}).output);
  const auto indexed = nlohmann::json::parse(
      run({"predict", "--weights", weights, "--data", folder_ / "set", "--index", "10", "--json"})
          .output);
  EXPECT_EQ(named["image"], file);
  EXPECT_EQ(named["classes"][0]["name"], "green");
  EXPECT_EQ(indexed["image"], "test image 10 (green)");
  EXPECT_EQ(named["classes"], indexed["classes"]);
}

TEST_F(ImageFiles, SameBitsWithAnyWorkers) {
  const std::string expected = train({"--max-batches", "12", "--workers", "1"});
  EXPECT_TRUE(expected == train({"--max-batches", "12", "--workers", "2"}));
  EXPECT_TRUE(expected == train({"--max-batches", "12", "--workers", "2", "--sched", "random"}));
  EXPECT_FALSE(expected == train({"--max-batches", "12", "--seed", "2"}));
}

TEST_F(ImageFiles, ResumedEqualsStraight) {
  const std::string straight = train({"--max-batches", "20"});
  const Words resumable{"--out", folder_ / "run", "--checkpoint-every", "10", "--resume", "auto"};
  const auto more = [&](const char* batches) {
    Words words{"--max-batches", batches};
    words.insert(words.end(), resumable.begin(), resumable.end());
    return words;
  };
  train(more("10"));
  EXPECT_TRUE(straight == train(more("20")));

  put(folder_ / "set/train/red/more.jpg", make_tinted_jpeg(0, 1000));
  const Finished other = run(more("30"));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.errors.find("was trained on the data '"), std::string::npos) << other.errors;
  EXPECT_NE(other.errors.find("(give the same --data, or train on with --other-data)"),
            std::string::npos);
}

}  // namespace
}  // namespace omni::test
