// These tests train on image files, from the folder to the trained net.
#include <gtest/gtest.h>

#include "tests/support/images/image_folder.hpp"
#include "tests/support/images/png_writer.hpp"
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
  // Trains, and returns the bytes of the weights.
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

  // `predict` gives the same classes for an image named by its path as by its `--index`.
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

// The same pictures are PPM files in one set, and PNG files of every kind in another. Folders,
// lists, valid and predict must give the same bits.
TEST_F(ImageFiles, PngIsReadEverywhereAsItIsLookedAt) {
  const auto folder = [&](const std::string& set, const char* split, int label) {
    const auto path = folder_ / set / split / std::to_string(label);
    std::filesystem::create_directories(path);
    return path;
  };
  std::string lists[2];
  for (int number = 0; number < 36; ++number) {
    Draws draws(Philox(7, RandomStream::synthetic), static_cast<std::uint64_t>(number));
    const int height = 18 + static_cast<int>(draws.below(6)), label = number % 3;
    const int width = 18 + static_cast<int>(draws.below(6));
    std::vector<std::uint8_t> pixels;
    for (int i = 0; i < 3 * height * width; ++i)
      pixels.push_back(static_cast<std::uint8_t>(draws.below(160) + (i % 3 == label ? 90 : 0)));
    std::vector<std::uint8_t> turned;  // by a quarter to the left
    for (int x = width - 1; x >= 0; --x)
      for (int y = 0; y < height; ++y)
        for (int c = 0; c < 3; ++c)
          turned.push_back(pixels[static_cast<std::size_t>(3 * (y * width + x) + c)]);
    const std::string size = std::to_string(width) + " " + std::to_string(height);
    const char* const split = number < 24 ? "train" : "val";
    const std::string name = std::to_string(number);
    put(folder("plain", split, label) / (name + ".ppm"),
        "P6 " + size + " 255\n" + std::string(pixels.begin(), pixels.end()));
    const char* const endings[] = {".png", ".JPG", ".jpeg", ".tif"};
    const std::string png =
        number % 2 == 0
            ? make_png(height, width, pixels, {.interlaced = number % 4 == 0})
            : with_chunk(make_png(width, height, turned), "eXIf", make_exif(6, number % 4 == 1));
    const auto file = folder("mixed", split, label) / (name + endings[number % 4]);
    put(file, png);
    lists[number < 24 ? 0 : 1] += file.string() + " " + std::to_string(label) + "\n";
  }
  const auto at = [&](const char* name) { return (folder_ / name).string(); };
  put(at("train.txt"), lists[0]);
  put(at("val.txt"), lists[1]);
  const auto outcome = [&](const std::string& data) {
    const Words net{"--net", folder_ / "net.cfg"};
    const auto say = [&](Words words) {
      words.insert(words.end(), net.begin(), net.end());
      const Finished run = omni_run(std::move(words));
      EXPECT_EQ(run.exit_code, 0) << run.errors;
      return run.output;
    };
    const std::string weights = folder_ / "weights";
    say({"--data", data, "--max-batches", "9", "--deterministic", "-q", "--save-weights", weights});
    return std::pair(get(weights), say({"valid", "--data", data, "--weights", weights, "--json"}));
  };
  const std::string lists_of_mixed = at("train.txt") + "," + at("val.txt");
  const auto expected = outcome(folder_ / "plain"), seen = outcome(folder_ / "mixed");
  EXPECT_TRUE(expected.first == seen.first);
  EXPECT_EQ(nlohmann::json::parse(expected.second)["test_loss"],
            nlohmann::json::parse(seen.second)["test_loss"]);
  // Lists name the same images in another order.
  EXPECT_EQ(nlohmann::json::parse(outcome(lists_of_mixed).second)["images"], 12);

  const auto probabilities = [&](const std::string& set) {
    const Finished named = omni_run({"predict", "--net", folder_ / "net.cfg", "--weights",
                                     folder_ / "weights", folder_ / set / "val", "--json"});
    EXPECT_EQ(named.exit_code, 0) << named.errors;
    std::vector<nlohmann::json> classes;
    std::istringstream lines(named.output);
    for (std::string line; std::getline(lines, line);)
      classes.push_back(nlohmann::json::parse(line)["classes"]);
    return classes;
  };
  EXPECT_EQ(probabilities("plain").size(), 12u);
  EXPECT_EQ(probabilities("plain"), probabilities("mixed"));
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
