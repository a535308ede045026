// These tests train from parameters that Caffe saved, with every kind of layer and solver. The
// losses, and the test loss at the end, must equal Caffe's. A mini-batch holds all eight images, so
// their order has no effect. caffe_oracle/README tells where the numbers come from.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/caffe/lmdb_writer.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

const std::string kOracle = OMNI_SOURCE_DIR "/tests/e2e/caffe_oracle/";
constexpr int kDrawnImages = 8, kSideOfImage = 8;

struct OracleCase {
  std::string name, start;
  std::vector<std::string> words{};
};
void PrintTo(const OracleCase& one, std::ostream* out) { *out << one.name; }

class CaffeOracleFiles : public testing::Test {
 protected:
  CaffeOracleFiles() {
    std::string list;
    for (int i = 0; i < kDrawnImages; ++i) {
      const std::string file = folder_ / (std::to_string(i) + ".ppm");
      put(file, "P6\n8 8\n255\n" + pixels_of(i));
      list += file + " " + std::to_string(i % 4) + "\n";
    }
    put(folder_ / "list.txt", list);
  }
  static std::string pixels_of(int i) {
    std::string pixels;
    for (int y = 0; y < kSideOfImage; ++y)
      for (int x = 0; x < kSideOfImage; ++x)
        for (int c = 0; c < 3; ++c)
          pixels += static_cast<char>(i * 131 + y * 31 + x * 17 + c * 71 + (i * y * x * 13) % 97);
    return pixels;
  }
  // Trains, compares the losses from iteration `done` on with Caffe's, and tests the saved
  // parameters.
  void expect_losses(const std::string& name, const std::string& solver, const std::string& data,
                     std::vector<std::string> words, std::size_t done = 0) const {
    std::ifstream file(kOracle + name + ".losses");
    std::vector<double> expected, losses;
    for (double loss = 0; file >> loss;) expected.push_back(loss);
    ASSERT_EQ(expected.size(), 21u);
    expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(done));
    const std::string metrics = folder_ / (name + ".jsonl"), end = folder_ / "end.caffemodel";
    words.insert(words.end(), {"--solver", solver, "--metrics", metrics, "--save-weights", end,
                               "--display", "1", "--out", folder_ / (name + "-run")});
    if (!data.empty()) words.insert(words.end(), {"--data", data});
    const Finished run = omni_run(words);
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    double test_loss = 0;
    std::ifstream lines(metrics);
    for (std::string line; std::getline(lines, line);) {
      const auto entry = nlohmann::json::parse(line);
      if (entry.contains("loss")) losses.push_back(entry["loss"]);
      if (entry.contains("test_loss")) test_loss = entry["test_loss"];
    }
    std::filesystem::remove(metrics);
    ASSERT_EQ(losses.size() + 1, expected.size());
    for (std::size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], expected[i], 1e-5 + 1e-4 * expected[i])
          << "iteration " << done + i + 1;
    EXPECT_NEAR(test_loss, expected.back(), 1e-5 + 1e-4 * expected.back());
    std::vector<std::string> test{"valid", "--solver", solver, "--weights", end, "--json"};
    if (!data.empty()) test.insert(test.end(), {"--data", data});
    const Finished valid = omni_run(test);
    ASSERT_EQ(valid.exit_code, 0) << valid.errors;
    EXPECT_NEAR(nlohmann::json::parse(valid.output)["test_loss"], test_loss,
                1e-6 + 1e-5 * test_loss);
  }
  // Puts the LMDBs that nets name into the folder: the images, and grey ones.
  void put_lmdbs() const {
    LmdbEntries images, depths;
    for (int i = 0; i < kDrawnImages; ++i) {
      images.emplace_back(std::to_string(i), datum_of(8, 8, 3, i % 4, pixels_of(i)));
      std::string depth;
      for (int y = 0; y < kSideOfImage; ++y)
        for (int x = 0; x < kSideOfImage; ++x)
          depth += static_cast<char>(i * 57 + y * 13 + x * 29 + (i * x * y * 7) % 83);
      depths.emplace_back(std::to_string(i), datum_of(8, 8, 1, 0, depth));
    }
    if (std::filesystem::exists(folder_ / "lmdb")) return;
    write_lmdb(folder_ / "lmdb", images);
    write_lmdb(folder_ / "depth", depths);
  }
  void expect_losses_of_lmdbs(const std::string& name) const {
    put_lmdbs();
    std::string net = get(kOracle + name + ".prototxt");
    for (const auto& [word, by] : {std::pair("\"LMDB\"", "lmdb"), std::pair("\"DEPTH\"", "depth"),
                                   std::pair("\"MEAN\"", "mean.binaryproto")})
      for (std::size_t at = 0; (at = net.find(word, at)) != net.npos;)
        net.replace(at, std::string(word).size(), '"' + std::string(folder_ / by) + '"');
    put(folder_ / (name + ".prototxt"), net);
    put(folder_ / "s.prototxt",
        "net: '" + name + ".prototxt'\n" + get(kOracle + name + "_solver.prototxt"));
    expect_losses(name, folder_ / "s.prototxt", "", {"--weights", kOracle + name + ".caffemodel"});
  }
  std::string data() const {
    const std::string list = folder_ / "list.txt";
    return list + "," + list;
  }
  TemporaryDirectory folder_;
};
class CaffeOracle : public CaffeOracleFiles, public testing::WithParamInterface<OracleCase> {};

TEST_P(CaffeOracle, losses_are_those_of_caffe) {
  const OracleCase& one = GetParam();
  std::vector<std::string> words{"--weights", kOracle + one.start + ".caffemodel"};
  words.insert(words.end(), one.words.begin(), one.words.end());
  expect_losses(one.name, kOracle + one.name + "_solver.prototxt", data(), words);
}

// The training resumes from Caffe's snapshot of iteration 10, with the solver's state.
TEST_F(CaffeOracleFiles, a_snapshot_of_caffe_goes_on) {
  for (const std::string name : {"normalised", "adadelta"}) {
    SCOPED_TRACE(name);
    expect_losses(name, kOracle + name + "_solver.prototxt", data(),
                  {"--snapshot", kOracle + name + "_iter_10.solverstate"}, 10);
  }
}

// A training that resumes from our own snapshot in the middle must have the same losses.
TEST_F(CaffeOracleFiles, our_snapshot_goes_on) {
  for (const std::string name : {"normalised", "adam"}) {
    SCOPED_TRACE(name);
    const std::string solver = kOracle + name + "_solver.prototxt";
    const std::string start = name == "adam" ? "scaled" : name;
    const Finished run = omni_run({"--solver", solver, "--data", data(), "--weights",
                                   kOracle + start + ".caffemodel", "--max-batches", "10", "--out",
                                   folder_ / name, "--save-weights", folder_ / "x.caffemodel"});
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    expect_losses(name, solver, data(), {"--snapshot", folder_ / "x.solverstate"}, 10);
  }
}

// The data layers name LMDBs and a file with the mean image.
TEST_F(CaffeOracleFiles, an_lmdb_that_the_net_names_is_its_data) {
  std::vector<float> mean(3 * kSideOfImage * kSideOfImage);
  for (int i = 0; i < kDrawnImages; ++i)
    for (std::size_t at = 0; at < mean.size(); ++at) {  // in planes, blue first
      const std::size_t pixel = at % 64, channel = 2 - at / 64;
      mean[at] += static_cast<float>(static_cast<std::uint8_t>(pixels_of(i)[3 * pixel + channel])) /
                  kDrawnImages;
    }
  put(folder_ / "mean.binaryproto", caffe_blob({1, 3, 8, 8}, mean));
  expect_losses_of_lmdbs("stored");
}

// Nets with two layers of data, with losses whose targets are data, labels, or blobs that learn.
TEST_F(CaffeOracleFiles, inputs_and_targets_are_those_of_caffe) {
  for (const char* name : {"paired", "coded", "regressed"}) {
    SCOPED_TRACE(name);
    expect_losses_of_lmdbs(name);
  }
}

// Some labels have no loss, or do not count for the accuracy. A softmax of several pixels has its
// classes in Caffe's order. These are the test results of the parameters that Caffe saved.
TEST_F(CaffeOracleFiles, test_results_are_those_of_caffe) {
  struct {
    const char *name, *start;
    double loss, accuracy;
  } const rows[] = {{"ignored", "functions", 1.25038755, 1.0 / 3},
                    {"summed", "several", 0.96201086, 1.0 / 3},
                    {"flattened", "flattened", 1.31057382, 0.5}};
  for (const auto& [name, start, loss, accuracy] : rows)
    for (const char* slice : {"8", "3"}) {
      SCOPED_TRACE(std::string(name) + " in slices of " + slice);
      const Finished valid =
          omni_run({"valid", "--net", kOracle + name + ".prototxt", "--weights",
                    kOracle + start + ".caffemodel", "--data", data(), "--slice", slice, "--json"});
      ASSERT_EQ(valid.exit_code, 0) << valid.errors;
      const auto result = nlohmann::json::parse(valid.output);
      EXPECT_NEAR(result["test_loss"], loss, 1e-4 * loss);
      EXPECT_NEAR(result["test_accuracy"], accuracy, 1e-6);
    }
}

// A label that is ignored need not be a class. Without ignore_label it is refused with its line.
TEST_F(CaffeOracleFiles, an_ignored_label_may_be_no_class) {
  std::string list = get(folder_ / "list.txt");
  const std::string other = folder_ / "other.txt";
  std::size_t images = 0;
  for (std::size_t at = 0; (at = list.find(" 1\n", at)) != list.npos; ++images)
    list.replace(at, 3, " 255\n");
  ASSERT_EQ(images, 2u);
  put(other, list);
  std::string net = get(kOracle + "ignored.prototxt");
  for (std::size_t at = 0; (at = net.find("ignore_label: 1", at)) != net.npos; at += 17)
    net.replace(at, 15, "ignore_label: 255");
  put(folder_ / "n.prototxt", net);
  const auto valid = [&](const std::string& name) {
    return omni_run({"valid", "--net", name, "--weights", kOracle + "functions.caffemodel",
                     "--data", other + "," + other, "--json", "--per-class"});
  };
  const Finished ignored = valid(folder_ / "n.prototxt");
  ASSERT_EQ(ignored.exit_code, 0) << ignored.errors;
  EXPECT_NEAR(nlohmann::json::parse(ignored.output)["test_loss"], 1.25038755, 1e-4);
  const Finished refused = valid(kOracle + "ignored.prototxt");
  EXPECT_EQ(refused.exit_code, 3) << refused.errors;
  EXPECT_NE(refused.errors.find("other.txt:2: label 255 is out of range: the net has 4 outputs"),
            std::string::npos)
      << refused.errors;
}

INSTANTIATE_TEST_SUITE_P(
    , CaffeOracle,
    testing::Values(
        OracleCase{"normalised", "normalised"},
        OracleCase{"normalised", "normalised", {"--slice", "3"}}, OracleCase{"scaled", "scaled"},
        OracleCase{"residual", "residual"}, OracleCase{"residual", "residual", {"--slice", "3"}},
        OracleCase{"stepped", "scaled"}, OracleCase{"nesterov", "scaled"},
        OracleCase{"adagrad", "scaled"}, OracleCase{"rmsprop", "scaled"},
        OracleCase{"adadelta", "scaled"}, OracleCase{"adam", "scaled"}, OracleCase{"l1", "scaled"},
        OracleCase{"clipped", "scaled"}, OracleCase{"clipped", "scaled", {"--slice", "3"}},
        OracleCase{"frozen", "scaled"}, OracleCase{"frozen", "scaled", {"--slice", "3"}},
        OracleCase{"functions", "functions"},
        OracleCase{"functions", "functions", {"--slice", "3"}}, OracleCase{"hinged", "functions"},
        OracleCase{"squared", "functions"}, OracleCase{"several", "several"},
        OracleCase{"several", "several", {"--slice", "3"}}, OracleCase{"ignored", "functions"},
        OracleCase{"ignored", "functions", {"--slice", "3"}}, OracleCase{"summed", "several"},
        OracleCase{"summed", "several", {"--slice", "3"}}, OracleCase{"flattened", "flattened"},
        OracleCase{"flattened", "flattened", {"--slice", "3"}}),
    [](const auto& one) { return one.param.name + (one.param.words.empty() ? "" : "_in_slices"); });

}  // namespace
}  // namespace omni::test
