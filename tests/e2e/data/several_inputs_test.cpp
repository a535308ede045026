// These tests train nets with several inputs, and a net whose loss has no classes: alone, in
// groups, from a checkpoint, and in an ensemble.
#include "tests/support/caffe/several_inputs.hpp"

#include <gtest/gtest.h>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

class SeveralInputs : public testing::Test {
 protected:
  Finished run(std::vector<std::string> words, const std::vector<std::string>& more) const {
    words.insert(words.end(), more.begin(), more.end());
    Finished done = omni_run(words);
    EXPECT_EQ(done.exit_code, 0) << done.errors;
    return done;
  }
  std::vector<nlohmann::json> metrics(const std::vector<std::string>& words,
                                      std::vector<std::string> more) const {
    const std::string file = folder_ / "m.jsonl";
    std::filesystem::remove(file);
    more.insert(more.end(), {"--metrics", file, "--display", "1"});
    run(words, more);
    return read_metrics(file);
  }
  static double last_loss(const std::vector<nlohmann::json>& lines) {
    double loss = NAN;
    for (const auto& line : lines)
      if (line.contains("loss_average")) loss = line["loss_average"];
    return loss;
  }
  TemporaryDirectory folder_;
};

TEST_F(SeveralInputs, two_towers_learn) {
  const auto words = two_towers(folder_);
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--workers", "2"},
        {"--groups", "2", "--workers", "2"},
        {"--groups", "2", "--workers", "2", "--strategy", "local"}}) {
    const auto lines = metrics(words, more);
    ASSERT_FALSE(lines.empty());
    EXPECT_LT(last_loss(lines), 0.9 * double(lines.front()["loss"])) << more[1];
  }
}

TEST_F(SeveralInputs, test_samples_are_predicted) {
  auto words = two_towers(folder_);
  const std::string weights = folder_ / "w.weights", image = folder_ / "a.ppm";
  run(words, {"--max-batches", "4", "--save-weights", weights});
  words.insert(words.begin(), "predict");
  words.insert(words.end(), {"--weights", weights});
  const auto said = run(words, {"--index", "1", "--index", "2"}).output;
  EXPECT_NE(said.find("test image 2"), said.npos) << said;
  put(image, "P6\n1 1\n255\n   ");
  words.push_back(image);
  const Finished refused = omni_run(words);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.errors.find("has several inputs, but a file is one image"), std::string::npos)
      << refused.errors;
}

// The data of one input may be on a disk of the job's node alone.
TEST_F(SeveralInputs, a_job_names_the_data_of_each) {
  two_towers(folder_);
  const std::string elsewhere = "data=/nodes/disk/a,/nodes/disk/b";
  const Finished made = run({"slurm"}, {"--time=1:00:00", "--net", folder_ / "towers.cfg", "--data",
                                        elsewhere, "--data", "facts=synthetic:96:3"});
  EXPECT_NE(made.errors.find("is not on this machine; the job's nodes must have it"),
            std::string::npos)
      << made.errors;
  EXPECT_NE(made.output.find(elsewhere), std::string::npos) << made.output;
  EXPECT_NE(made.output.find("--data facts=synthetic:96:3"), std::string::npos) << made.output;
}

TEST_F(SeveralInputs, the_number_of_workers_changes_no_bit) {
  for (const auto& words : {two_towers(folder_), denoiser(folder_)}) {
    std::vector<std::string> files;
    for (const char* workers : {"1", "2"}) {
      files.push_back(folder_ / (std::string(workers) + ".weights"));
      run(words, {"--deterministic", "--workers", workers, "--max-batches", "12", "--save-weights",
                  files.back()});
    }
    EXPECT_TRUE(get(files[0]) == get(files[1]));
  }
}

TEST_F(SeveralInputs, a_training_resumes_with_the_same_bits) {
  for (const auto& words : {two_towers(folder_), denoiser(folder_)}) {
    const std::string out = folder_ / "run", whole = folder_ / "whole.weights",
                      parts = folder_ / "parts.weights";
    std::filesystem::remove_all(out);
    const std::vector<std::string> same{"--deterministic", "--workers", "2"};
    auto with = [&](std::vector<std::string> more) {
      more.insert(more.end(), same.begin(), same.end());
      run(words, more);
    };
    with({"--max-batches", "20", "--save-weights", whole});
    with({"--max-batches", "9", "--out", out, "--checkpoint-every", "9"});
    with({"--max-batches", "20", "--out", out, "--resume", "auto", "--save-weights", parts});
    EXPECT_TRUE(get(whole) == get(parts));
  }
}

// What has no classes reports losses alone.
TEST_F(SeveralInputs, a_loss_of_targets_has_no_classes) {
  const auto words = denoiser(folder_);
  const std::string weights = folder_ / "w.caffemodel";
  for (const char* groups : {"1", "2"}) {
    const auto lines =
        metrics(words, {"--groups", groups, "--workers", "2", "--save-weights", weights});
    EXPECT_LT(last_loss(lines), 0.97 * double(lines.front()["loss"]));
    bool is_tested = false;
    for (const auto& line : lines) {
      EXPECT_FALSE(line.contains("accuracy") || line.contains("test_accuracy"));
      is_tested |= line.contains("test_loss");
    }
    EXPECT_TRUE(is_tested);
  }
  const auto valid =
      nlohmann::json::parse(run({"valid"}, {"--solver", folder_ / "s.prototxt", "--data",
                                            "synthetic:96:3", "--weights", weights, "--json"})
                                .output);
  EXPECT_GT(valid["test_loss"], 0);
  EXPECT_FALSE(valid.contains("test_accuracy"));
  const std::string text = run({"valid"}, {"--solver", folder_ / "s.prototxt", "--data",
                                           "synthetic:96:3", "--weights", weights})
                               .output;
  EXPECT_EQ(text.find("accuracy"), text.npos) << text;
  const std::string log = run(words, {"--log", "caffe", "--test-every", "20"}).errors;
  EXPECT_NE(log.find("Test net output #0: square = "), log.npos) << log;
  EXPECT_EQ(log.find("accuracy"), log.npos);
}

// The mean over the values is their sum, divided by their number.
TEST_F(SeveralInputs, a_cross_entropy_may_be_a_mean) {
  denoiser(folder_);
  const std::string net = get(folder_ / "n.prototxt"), loss = "bottom: 'clean' }\n";
  const auto first_loss = [&](const std::string& fields) {
    const std::size_t at = net.find(loss);
    put(folder_ / "n.prototxt", net.substr(0, at) + "bottom: 'clean' " + fields + " }\n");
    return double(metrics({"--solver", folder_ / "s.prototxt", "--data", "synthetic:96:3"},
                          {"--max-batches", "1"})
                      .front()["loss"]);
  };
  const double sum = first_loss("");
  EXPECT_NEAR(first_loss("loss_param { normalization: FULL }"), sum / 90, 1e-6 * sum);
  EXPECT_NEAR(first_loss("loss_weight: 3"), 3 * sum, 1e-5 * sum);
}

// A blob that is only another name of the data can be a target, also where a pilot inspects layers.
TEST_F(SeveralInputs, data_by_another_name_are_a_target) {
  denoiser(folder_);
  std::string net = get(folder_ / "n.prototxt");
  net = net.substr(0, net.find("layer { name: 't'")) +
        "layer { name: 'f' type: 'Flatten' bottom: 'noisy' top: 'clean' }\n" +
        net.substr(net.find("layer { name: 'e'"));
  put(folder_ / "n.prototxt", net);
  const auto lines = metrics({"--solver", folder_ / "s.prototxt", "--data", "synthetic:96:3"},
                             {"--groups", "2", "--workers", "2"});
  EXPECT_LT(last_loss(lines), 0.97 * double(lines.front()["loss"]));
}

TEST_F(SeveralInputs, what_needs_classes_is_refused) {
  const auto words = denoiser(folder_);
  const std::string weights = folder_ / "w.caffemodel";
  run(words, {"--max-batches", "2", "--save-weights", weights});
  const auto refused = [&](std::vector<std::string> more, const std::string& what) {
    more.insert(more.end(), {"--solver", folder_ / "s.prototxt", "--data", "synthetic:96:3",
                             "--weights", weights});
    const Finished done = omni_run(more);
    EXPECT_EQ(done.exit_code, 2) << done.errors;
    EXPECT_NE(done.errors.find(what), std::string::npos) << done.errors;
  };
  refused({"predict", "--index", "1"}, "n: has no classes to predict (omni-run valid");
  refused({"valid", "--per-class"}, "--per-class: the net has no classes (leave it out)");
}

}  // namespace
}  // namespace omni::test
