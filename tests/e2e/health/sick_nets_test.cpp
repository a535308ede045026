// These tests train nets that cannot learn. A message says why and names the layer; with --strict
// the training is saved and ends. Nets that learn cause no message.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/omni_run.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;

class SickNets : public testing::Test {
 protected:
  static std::string cfg(const std::string& net, const std::string& layers) {
    return "[net]\nbatch=32\nheight=12\nwidth=12\nchannels=1\n" + net + layers +
           "[connected]\noutput=10\nactivation=linear\n[softmax]\n";
  }
  static std::string convolutions(const std::string& activation) {
    std::string text;
    for (const char* filters : {"8", "12"})
      text += std::string("[convolutional]\nsize=3\npad=1\nfilters=") + filters +
              "\nactivation=" + activation + "\n[maxpool]\nsize=2\nstride=2\n";
    return text;
  }

  Finished train(const std::string& text, const Words& more,
                 const std::string& data = "synthetic:3200") const {
    put(folder_ / "net.cfg", text);
    Words all{"--net", folder_ / "net.cfg", "--data", data, "--no-test", "--out", folder_ / "run"};
    all.insert(all.end(), more.begin(), more.end());
    return omni_run(all);
  }
  std::string where(int line) const {
    return (folder_ / "net.cfg").string() + ":" + std::to_string(line) + ": ";
  }
  static int warnings(const Finished& run) {
    int count = 0;
    for (std::size_t at = 0; (at = run.errors.find("warning: ", at)) != std::string::npos; ++at)
      ++count;
    return count;
  }
  void expect_dead(const Finished& run, const std::string& layer, bool strict,
                   int times = 1) const {
    EXPECT_EQ(run.exit_code, strict ? 6 : 0) << run.errors;
    EXPECT_NE(run.errors.find("warning: " + layer), std::string::npos) << run.errors;
    EXPECT_EQ(warnings(run), times) << run.errors;
    EXPECT_EQ(run.errors.find("error: " + layer) != std::string::npos, strict) << run.errors;
    EXPECT_EQ(run.errors.find("saved " + (folder_ / "run").string()) != std::string::npos, strict);
  }

  TemporaryDirectory folder_;
};

TEST_F(SickNets, TooLargeARateKillsRelus) {
  const std::string net = cfg("learning_rate=1\nmomentum=0.9\n", convolutions("relu"));
  for (const bool strict : {false, true}) {
    Words more{"--max-batches", "400"};
    if (strict) more.push_back("--strict");
    const Finished run = train(net, more);
    EXPECT_EQ(run.exit_code, strict ? 6 : 0) << run.errors;
    EXPECT_NE(run.errors.find("gives the same output for all 256 samples looked at, all zeros"),
              std::string::npos)
        << run.errors;
    EXPECT_NE(run.errors.find("(lower learning_rate by 10, or use activation=leaky)"),
              std::string::npos)
        << run.errors;
  }
  EXPECT_EQ(entries_in(folder_ / "run"), 2) << "lock and checkpoint";
}

TEST_F(SickNets, GroupsWithModelsOfTheirOwnAreLookedAt) {
  for (const char* strategy : {"local", "elastic"}) {
    const Finished run = train(cfg("learning_rate=1\nmomentum=0.9\n", convolutions("relu")),
                               {"--max-batches", "400", "--strict", "--deterministic", "--strategy",
                                strategy, "--groups", "2"});
    EXPECT_EQ(run.exit_code, 6) << strategy << run.errors;
    EXPECT_NE(run.errors.find("all 256 samples looked at, all zeros"), std::string::npos)
        << run.errors;
    EXPECT_NE(run.errors.find("saved "), std::string::npos) << run.errors;
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_F(SickNets, GradientsVanishInDeepLogisticStacks) {
  std::string layers;
  for (int i = 0; i < 8; ++i)
    layers += "[connected]\noutput=24\nactivation=logistic\nweights_std=0.05\n";
  const Finished run =
      train(cfg("learning_rate=0.01\nmomentum=0.9\n", layers), {"--max-batches", "400"});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(warnings(run), 1) << run.errors;
  EXPECT_NE(run.errors.find("batch_normalize=1"), std::string::npos) << run.errors;
}

TEST_F(SickNets, NoStepsAreTaken) {
  for (const std::string rate : {"0", "1e-12"}) {
    const Finished run = train(cfg("", convolutions("leaky")),
                               {"--max-batches", "300", "--learning-rate", rate, "--strict"});
    const bool none = rate == "0";  // which is told at once, and again at the inspection
    expect_dead(run, none ? "the learning rate is 0" : "a learning rate of 1e-12", true,
                none ? 2 : 1);
    std::filesystem::remove_all(folder_ / "run");
  }
}

// In 10 epochs of 22 mini-batches one net stays at chance, and another net learns.
TEST_F(SickNets, EpochsWithoutLearningAreToldHoweverShort) {
  std::string deep;
  for (int i = 0; i < 4; ++i) deep += "[connected]\noutput=24\nactivation=logistic\n";
  const Finished stays =
      train(cfg("learning_rate=0.01\nmomentum=0.9\n", deep), {"--epochs", "10"}, "synthetic:720");
  EXPECT_EQ(stays.exit_code, 0) << stays.errors;
  EXPECT_EQ(warnings(stays), 1) << stays.errors;
  EXPECT_NE(stays.errors.find(" mini-batches, 6 epochs; "), std::string::npos) << stays.errors;
  const std::string good = cfg("learning_rate=0.01\nmomentum=0.9\n", convolutions("relu"));
  const Finished learns = train(good, {"--epochs", "10", "--strict"}, "synthetic:720");
  EXPECT_EQ(learns.exit_code, 0) << learns.errors;
  EXPECT_EQ(warnings(learns), 0) << learns.errors;
}

TEST_F(SickNets, DataHaveNothingToLearn) {
  const auto pixels = [](int) { return std::string(144, '\0'); };
  const auto idx = [&](const std::string& name, const auto& labels) {
    std::filesystem::create_directories(folder_ / name);
    for (const char* split : {"train", "t10k"}) {
      std::string images("\0\0\x8\3\0\0\2\0\0\0\0\xc\0\0\0\xc", 16), all("\0\0\x8\1\0\0\2\0", 8);
      for (int i = 0; i < 512; ++i) {
        images += pixels(i);
        all += static_cast<char>(labels(i));
      }
      put(folder_ / name / (std::string(split) + "-images-idx3-ubyte"), images);
      put(folder_ / name / (std::string(split) + "-labels-idx1-ubyte"), all);
    }
    return (folder_ / name).string();
  };
  const std::string net = cfg("learning_rate=0.01\nmomentum=0.9\n", convolutions("relu"));
  expect_dead(
      train(net, {"--max-batches", "300", "--strict"}, idx("same", [](int i) { return i % 10; })),
      "--data: all 256 samples looked at are the same", true);
  std::filesystem::remove_all(folder_ / "run");
  expect_dead(train(net, {"--max-batches", "300", "--strict"}, idx("one", [](int) { return 3; })),
              "--data: all training samples have label 3", true);
}

TEST_F(SickNets, AStrictEndIsResumedWithAnotherRate) {
  const std::string net = cfg("momentum=0.9\n", convolutions("leaky"));
  const Words strict{"--max-batches", "300", "--strict", "--resume", "auto"};
  const auto with = [&](const char* rate) {
    Words all = strict;
    all.insert(all.end(), {"--learning-rate", rate});
    return train(net, all);
  };
  ASSERT_EQ(with("1e-12").exit_code, 6);
  const Finished resumed = with("0.01");
  EXPECT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_EQ(warnings(resumed), 0) << resumed.errors;
}

// The groups take turns (--deterministic). Without turns, the loss rises for some mini-batches in
// one of ten trainings, and the guard reports it.
TEST_F(SickNets, HealthyOnesSayNothing) {
  const std::string residual =
      "[convolutional]\nfilters=8\nsize=3\npad=1\nbatch_normalize=1\nactivation=relu\n"
      "[convolutional]\nfilters=8\nsize=3\npad=1\nbatch_normalize=1\nactivation=linear\n"
      "[shortcut]\nfrom=-2\nactivation=relu\n[dropout]\nprobability=0.3\n";
  const std::vector<std::pair<std::string, Words>> healthy{
      {residual, {}},
      {residual, {"--set", "adam=1", "--learning-rate", "0.001"}},
      {convolutions("relu"), {"--groups", "3", "--deterministic", "--seed", "2"}},
      {convolutions("logistic"), {}},
      {"[connected]\noutput=64\nactivation=relu\n", {}}};
  for (const auto& [layers, more] : healthy) {
    Words all{"--max-batches", "1100", "--strict"};
    all.insert(all.end(), more.begin(), more.end());
    const Finished run = train(cfg("learning_rate=0.01\n", layers), all);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_EQ(warnings(run), 0) << layers << run.errors;
    std::filesystem::remove_all(folder_ / "run");
  }
}

}  // namespace
}  // namespace omni::test
