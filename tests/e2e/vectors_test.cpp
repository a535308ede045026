// These tests train a net on vectors from LIBSVM files, and test its weights, with and without
// scaled features.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

// Feature 1 decides the class and has values up to thousands. Feature 2 tells nothing about the
// class.
std::string lines(int first) {
  std::string text;
  for (int i = first; i < first + 64; ++i) {
    const int label = i * 7 % 2;
    text += (label == 1 ? "+1 1:" : "-1 1:") + std::to_string(2000 * label + i * 37 % 900) +
            " 2:" + std::to_string(i * 13 % 8) + "\n";
  }
  return text;
}

TEST(Vectors, are_learned_tested_and_predicted) {
  const TemporaryDirectory folder;
  put(folder / "net.cfg",
      "[net]\nbatch=16\ninputs=2\nlearning_rate=0.5\nmomentum=0.9\n[connected]\noutput=2\n"
      "activation=linear\n[softmax]\n");
  put(folder / "train.svm", lines(0));
  put(folder / "test.svm", lines(64));
  const std::string weights = folder / "weights";
  const std::vector<std::string> data{
      "--net",  folder / "net.cfg",
      "--data", (folder / "train.svm").string() + "," + (folder / "test.svm").string(),
      "--json", "--scale-features"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), data.begin(), data.end());
    const Finished run = omni_run(words);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return nlohmann::json::parse(run.output);
  };
  EXPECT_EQ(with({"--max-batches", "200", "--save-weights", weights})["test_accuracy"], 1);
  EXPECT_EQ(with({"valid", "--weights", weights})["test_accuracy"], 1);
  const auto predicted = with({"predict", "--weights", weights, "--index", "1"});
  EXPECT_EQ(predicted["image"], "test image 1 (+1)");
  EXPECT_EQ(predicted["classes"][0]["name"], "+1");
}

}  // namespace
}  // namespace omni::test
