// These tests train on data with some damaged images. The training names and counts them, and has
// the same bits wherever it was interrupted.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/images/image_folder.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class SomeDamaged : public testing::Test {
 protected:
  SomeDamaged() {
    put(folder_ / "net.cfg", kImageNet);
    make_image_folder(folder_ / "set", 40, 10);
  }
  std::string damage(const std::string& name) const {
    const std::string path = folder_ / "set" / name;
    put(path, get(path).substr(0, 400));
    return path;
  }
  Finished run(Words words) const {
    words.insert(words.end(), {"--net", folder_ / "net.cfg", "--data", folder_ / "set"});
    return omni_run(words);
  }
  // Returns the bytes of the weights, and the finished program.
  std::pair<std::string, Finished> train(Words words) const {
    const std::string weights = folder_ / "weights";
    words.insert(words.end(), {"--save-weights", weights, "--deterministic", "--json"});
    Finished trained = run(words);
    EXPECT_EQ(trained.exit_code, 0) << trained.errors;
    return {get(weights), std::move(trained)};
  }
  static std::ptrdiff_t times(const std::string& text, const std::string& part) {
    std::ptrdiff_t count = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
    return count;
  }
  // Returns the paths of the images that the metrics name, sorted.
  static Words named(const std::string& metrics, const char* key = "damaged_image") {
    Words paths;
    for (const auto& line : read_metrics(metrics))
      if (line.contains(key)) paths.push_back(line[key]);
    std::ranges::sort(paths);
    return paths;
  }

  TemporaryDirectory folder_;
};

TEST_F(SomeDamaged, AreSkippedNamedAndCounted) {
  const std::string path = damage("train/green/11.jpg"), metrics = folder_ / "metrics";
  const auto [weights, run] = train({"--epochs", "3", "--display", "1", "--metrics", metrics});
  EXPECT_EQ(times(run.errors, "warning: skipped: " + path +
                                  ": is a damaged JPEG: Premature end of JPEG file (fetch it "
                                  "again, or leave it out)\n"),
            1)
      << run.errors;
  EXPECT_EQ(times(run.errors,
                  "warning: 1 of 120 training images could not be read; the warnings "
                  "above name them\n"),
            1)
      << run.errors;
  EXPECT_EQ(nlohmann::json::parse(run.output)["damaged_images"], 1);
  EXPECT_EQ(named(metrics), Words{path});
  for (const auto& line : read_metrics(metrics))
    if (line.contains("damaged_image")) {
      EXPECT_EQ(line["damaged_images"], 1);
      EXPECT_EQ(line["reason"], "is a damaged JPEG: Premature end of JPEG file");
      EXPECT_TRUE(line["iteration"].is_number_unsigned());
    }
}

TEST_F(SomeDamaged, SameBitsWithAnyWorkersAndAfterAKill) {
  const Words damaged{damage("train/blue/3.jpg"), damage("train/green/39.jpg"),
                      folder_ / "set/train/red/20.jpg"};
  fs::remove(damaged[2]);  // a link without a target takes its name
  fs::create_symlink("gone", damaged[2]);
  const auto with = [](Words more) {
    more.insert(more.end(), {"--damaged-images", "5%"});
    return more;
  };
  const std::string straight = train(with({"--max-batches", "25", "--workers", "1"})).first;
  EXPECT_TRUE(straight == train(with({"--max-batches", "25", "--workers", "2"})).first);
  EXPECT_TRUE(straight == train(with({"--max-batches", "25", "--stage"})).first);

  const std::string metrics = folder_ / "metrics", out = folder_ / "run";
  const auto resumable = [&](const char* batches) {
    return with({"--max-batches", batches, "--out", out, "--checkpoint-every", "4", "--resume",
                 "auto", "--metrics", metrics, "--display", "1"});
  };
  // The last checkpoint is removed, as if the run had been killed between iterations 12 and 15.
  train(resumable("15"));
  std::vector<fs::path> saves;
  for (const auto& entry : fs::directory_iterator(out))
    if (entry.path().filename().string().starts_with("save-")) saves.push_back(entry.path());
  fs::remove_all(*std::ranges::max_element(saves));
  const auto [weights, resumed] = train(resumable("25"));
  EXPECT_NE(resumed.errors.find(" at iteration 12\n"), std::string::npos) << resumed.errors;
  EXPECT_TRUE(weights == straight);
  EXPECT_EQ(named(metrics), damaged) << get(metrics);
  for (const std::string& path : damaged)
    EXPECT_EQ(times(resumed.errors, "warning: skipped: " + path), 1) << resumed.errors;
  EXPECT_EQ(nlohmann::json::parse(resumed.output)["damaged_images"], 3);

  // Damaged images that an earlier start found are counted, even if the resumed run does not read
  // them.
  const auto [same, again] = train(resumable("26"));
  EXPECT_EQ(nlohmann::json::parse(again.output)["damaged_images"], 3) << again.errors;
  EXPECT_EQ(named(metrics), damaged) << get(metrics);
}

TEST_F(SomeDamaged, TestImagesShowBeforeTheFirstIteration) {
  const std::string path = damage("val/red/45.jpg"), metrics = folder_ / "metrics";
  const auto [weights, run] =
      train({"--epochs", "2", "--display", "1", "--metrics", metrics, "--damaged-images", "4%"});
  const std::size_t said = run.errors.find("warning: skipped: " + path);
  EXPECT_LT(said, run.errors.find("\n1, ")) << run.errors;
  EXPECT_EQ(times(run.errors, "warning: skipped: "), 1) << run.errors;
  EXPECT_EQ(times(run.errors, " on 29 images"), 2) << run.errors;
  EXPECT_EQ(nlohmann::json::parse(run.output)["damaged_test_images"], 1);
  EXPECT_EQ(named(metrics, "damaged_test_image"), Words{path});
  EXPECT_EQ(read_metrics(metrics).front()["damaged_test_image"], path);

  const Words valid{"valid", "--weights", folder_ / "weights", "--damaged-images", "4%"};
  Words as_json = valid;
  as_json.insert(as_json.end(), {"--json", "--per-class"});
  const Finished shown = this->run(valid), counted = this->run(as_json);
  EXPECT_EQ(shown.exit_code, 0) << shown.errors;
  EXPECT_EQ(times(shown.errors, "warning: skipped: " + path), 1) << shown.errors;
  EXPECT_NE(shown.output.find(" on 29 images; 1 could not be read\n"), std::string::npos);
  const auto object = nlohmann::json::parse(counted.output);
  EXPECT_EQ(object["images"], 29);
  EXPECT_EQ(object["damaged_test_images"], 1);
  EXPECT_EQ(object["per_class"][2]["images"], 9);
  EXPECT_EQ(this->run({"valid", "--weights", folder_ / "weights"}).exit_code, 3);
}

}  // namespace
}  // namespace omni::test
