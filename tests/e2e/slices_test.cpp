// omni-run time --slices: what it measures decides how later trainings are cut.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class MeasuredSlices : public testing::Test {
 protected:
  Words on_one_core(Words words) const {
    words.insert(words.end(), {"--net", "lenet", "--batch", "24", "--workers", "1", "--gpus",
                               "none", "--models", folder_ / ""});
    return words;
  }
  Finished run(const Words& words) { return omni_run(on_one_core(words)); }
  nlohmann::json time_slices() {
    const Finished timed =
        run({"time", "--slices", "--iterations", "2", "--warm-up", "1", "--json"});
    EXPECT_EQ(timed.exit_code, 0) << timed.errors;
    return nlohmann::json::parse(timed.output);
  }
  std::vector<fs::path> records() const {
    std::vector<fs::path> files;
    std::error_code none_yet;
    for (const auto& entry : fs::directory_iterator(folder_ / "slices", none_yet))
      if (entry.path().extension() == ".json") files.push_back(entry);
    return files;
  }
  fs::path record() {
    EXPECT_EQ(records().size(), 1u);
    return records().front();
  }
  void write_record(const std::string& text) { std::ofstream(record()) << text; }
  // Of a training with these arguments.
  std::vector<int> cut(Words words = {}) {
    words.insert(words.end(), {"--dry-run", "--json"});
    const Finished dry = run(words);
    EXPECT_EQ(dry.exit_code, 0) << dry.errors;
    said_ = dry.errors;
    return nlohmann::json::parse(dry.output)["slices"];
  }

  TemporaryDirectory folder_;
  std::string said_;
};

TEST_F(MeasuredSlices, decide_how_trainings_are_cut) {
  const std::vector<int> by_rule = cut();
  EXPECT_EQ(said_.find("--slices"), std::string::npos);
  const nlohmann::json told = time_slices();
  ASSERT_GE(told["rows"].size(), 3u);
  double best = 1e9, of_the_rule = 0;
  int fastest = 0;
  for (const auto& row : told["rows"]) {
    const double seconds = row["seconds"];
    EXPECT_GT(seconds, 0);
    if (seconds < best) best = seconds, fastest = row["images_per_slice"];
    if (row["images_per_slice"] == by_rule.front()) of_the_rule = seconds;
  }
  ASSERT_GT(of_the_rule, 0);
  // A gain that is next to none is not worth another size.
  EXPECT_EQ(told["chosen"], best < 0.98 * of_the_rule ? fastest : by_rule.front());
  EXPECT_EQ(cut().front(), told["chosen"]);

  write_record(R"({"images_per_slice": 5, "seconds_by_images_per_slice": {"24": 0.2, "5": 0.1}})");
  EXPECT_EQ(cut(), (std::vector{5, 5, 5, 5, 4}));
  EXPECT_NE(said_.find("slices of 5 images, as omni-run time --slices measured"), std::string::npos)
      << said_;
  const Finished timed = run({"time", "--iterations", "1", "--warm-up", "1"});
  EXPECT_NE(timed.errors.find("slices of 5 images"), std::string::npos) << timed.errors;
  const Finished planned =
      run({"plan", "--most-groups", "1", "--iterations", "4", "--warm-up", "1", "--json"});
  ASSERT_EQ(planned.exit_code, 0) << planned.errors;
  EXPECT_EQ(nlohmann::json::parse(planned.output)["rows"][0]["images_per_slice"], 5);
  // Other things decide:
  EXPECT_EQ(cut({"--slice", "8"}), (std::vector{8, 8, 8}));
  EXPECT_EQ(cut({"--deterministic"}), by_rule);
  EXPECT_EQ(cut({"--precision", "bf16"}), by_rule);  // it was not timed so
  EXPECT_NE(cut({"--groups", "2"}).front(), 5);

  // A damaged record is not trusted.
  for (const char* text :
       {R"({"images_per_slice": 5})", R"({"seconds_by_images_per_slice": {"5": 0.1}})",
        R"({"images_per_slice": 5, "seconds_by_images_per_slice": 3})",
        R"({"images_per_slice": 5, "seconds_by_images_per_slice": {}})",
        R"({"images_per_slice": 5, "seconds_by_images_per_slice": {"6": 0.1}})",
        R"({"images_per_slice": "5", "seconds_by_images_per_slice": {"5": 0.1}})",
        R"({"images_per_slice": 4294967301, "seconds_by_images_per_slice": {"5": 0.1}})",
        R"({"images_per_slice": 25, "seconds_by_images_per_slice": {"25": 0.1}})",
        R"({"images_per_slice": 0, "seconds_by_images_per_slice": {"0": 0.1}})",
        R"({"images_per_slice": 5, "seconds_by_images_per_slice": {"5": -0.1}})",
        R"({"images_per_slice": 5, "seconds_by_images_per_slice": {"5": "x"}})",
        R"({"images_per_slice": 5, "seconds_by_images_per_slice": {"5": 0.1, "5abc": 0.1}})", "",
        "{", "[]"}) {
    write_record(text);
    EXPECT_EQ(cut(), by_rule) << text;
    EXPECT_NE(said_.find("no sound times of slices"), std::string::npos) << text << said_;
  }
}

TEST_F(MeasuredSlices, are_measured_by_a_long_training_itself) {
  const Words training{"--data", "synthetic:64", "--no-test", "--out", folder_ / "run"};
  Words shortly = training, without_end = training;
  shortly.insert(shortly.end(), {"--max-batches", "3"});
  ASSERT_EQ(run(shortly).exit_code, 0);
  EXPECT_TRUE(records().empty());

  without_end.insert(without_end.begin(), kOmniRun);
  without_end.insert(without_end.end(), {"--max-batches", "0"});
  const pid_t child = start_program(on_one_core(without_end), "/dev/null", folder_ / "errors");
  while (records().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(child, SIGINT);
  EXPECT_EQ(wait_for_program(child), 75);
  const std::string said = get(folder_ / "errors");
  EXPECT_NE(said.find("measuring how large tasks should be"), std::string::npos) << said;
  EXPECT_NE(said.find("images it is, of "), std::string::npos) << said;
  cut();
  EXPECT_NE(said_.find("as omni-run time --slices measured"), std::string::npos) << said_;
}

TEST_F(MeasuredSlices, need_a_choice) {
  for (const Words& words :
       std::vector<Words>{{"--slice", "4"}, {"--deterministic"}, {"--trace", folder_ / "trace"}}) {
    Words all{"time", "--slices"};
    all.insert(all.end(), words.begin(), words.end());
    const Finished refused = run(all);
    EXPECT_EQ(refused.exit_code, 2) << refused.errors;
    EXPECT_NE(refused.errors.find("--slices: "), std::string::npos) << refused.errors;
  }
}

TEST_F(MeasuredSlices, are_not_measured_in_vain) {
  std::ofstream(folder_ / "slices") << "a file where the folder should be";
  const Finished refused = run({"time", "--slices"});
  EXPECT_EQ(refused.exit_code, 2) << refused.errors;
  EXPECT_EQ(refused.output, "");
}

// As many at once as --subdivisions say, not as many as an update takes.
TEST_F(MeasuredSlices, are_of_the_images_at_once) {
  const Finished timed = run(
      {"time", "--slices", "--iterations", "1", "--warm-up", "1", "--json", "--subdivisions", "4"});
  ASSERT_EQ(timed.exit_code, 0) << timed.errors;
  EXPECT_EQ(nlohmann::json::parse(timed.output)["images"], 6);
  const Finished one = run({"time", "--slices", "--iterations", "1", "--warm-up", "1", "--json",
                            "--subdivisions", "24"});
  ASSERT_EQ(one.exit_code, 0) << one.errors;
  EXPECT_EQ(nlohmann::json::parse(one.output)["chosen"], 1);
}

}  // namespace
}  // namespace omni::test
