// These tests check that weights of another net are refused as a whole. With dontload=1 in its last
// layers, a net loads the weights of all other layers.
#include <gtest/gtest.h>

#include "tests/support/net_text.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;

std::string net_with(const std::string& last) {
  return net(8, {8, 8, 1}) + convolutional(4, "relu") + connected(12, "relu") + last +
         layer("softmax");
}

class OtherWeights : public testing::Test {
 protected:
  OtherWeights() {
    put(folder_ / "net.cfg", net_with("[connected]\noutput=5\nactivation=linear\n"));
    put(folder_ / "shorter.cfg", net_with(""));
    put(folder_ / "longer.cfg", net_with("[connected]\noutput=5\nactivation=linear\n"
                                         "[connected]\noutput=5\nactivation=linear\n"));
    // tuned.cfg has another number of classes than net.cfg.
    put(folder_ / "tuned.cfg", net_with("[connected]\noutput=3\nactivation=linear\ndontload=1\n"));
    put(folder_ / "middle.cfg", net_with("[connected]\noutput=12\nactivation=relu\ndontload=1\n"
                                         "[connected]\noutput=5\nactivation=linear\n"));
    const Finished run = omni_run({"--net", folder_ / "net.cfg", "--data", "synthetic:8",
                                   "--no-test", "--max-batches", "2", "--checkpoint-every", "2",
                                   "--out", folder_ / "run", "--save-weights", weights_});
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "run"))
      if (entry.path().filename().string().starts_with("save-")) checkpoint_ = entry.path();
  }
  // Returns the command lines of all commands that read weights.
  std::vector<Words> readers(const std::string& net, const std::string& from) const {
    const Words common{
        "--net", folder_ / (net + ".cfg"), "--data", "synthetic:8", "--weights", from, "-q"};
    std::vector<Words> commands{{"valid"}, {"predict", "--index", "0"}};
    if (from == weights_) commands.push_back({"--max-batches", "1", "--no-test"});
    for (Words& words : commands) words.insert(words.end(), common.begin(), common.end());
    return commands;
  }
  void refused(const std::string& net, const std::string& from, const std::string& why) const {
    for (const Words& words : readers(net, from)) {
      const Finished run = omni_run(words);
      EXPECT_EQ(run.exit_code, 3) << words[0];
      EXPECT_EQ(run.errors, "error: " + from + ": " + why + "\n") << words[0];
      EXPECT_EQ(run.output, "");
    }
  }
  void taken(const std::string& net) const {
    for (const Words& words : readers(net, weights_)) {
      const Finished run = omni_run(words);
      EXPECT_EQ(run.exit_code, 0) << words[0];
      EXPECT_EQ(run.errors, "") << words[0];
    }
  }

  TemporaryDirectory folder_;
  std::string weights_ = folder_ / "net.weights", checkpoint_;
};

TEST_F(OtherWeights, AreRefusedWhenTooManyOrTooFew) {
  taken("net");
  // The net needs 4 * (4 + 36 + 12 + 12 * 256) bytes. The file also has 4 * (5 + 60) bytes of one
  // more layer.
  refused("shorter", weights_,
          "the network needs 12496 bytes of weights, the file has 12756 (the file belongs to "
          "another network; with dontload=1 in the last layers, the others are loaded from its "
          "beginning)");
  refused("longer", weights_,
          "the network needs 12876 bytes of weights, the file has only 12756 (the file is "
          "truncated, or belongs to another network)");
}

TEST_F(OtherWeights, TheBeginningIsLoadedIntoANetWhoseEndDoesNotLoad) {
  taken("tuned");
  refused("middle", weights_,
          "the network needs 13380 bytes of weights, the file has only 12756 (the file is "
          "truncated, or belongs to another network)");
  put(weights_, get(weights_).substr(0, 20 + 12496));  // none at all for the last layer
  taken("tuned");
}

TEST_F(OtherWeights, OfCheckpointsAreRefused) {
  refused("shorter", checkpoint_,
          "has 6 arrays of parameters, the net 4 (it belongs to another net)");
  refused("longer", checkpoint_,
          "has no array 'param/003.connected.bias' (it belongs to another net)");
  const Finished resumed =
      omni_run({"--net", folder_ / "shorter.cfg", "--data", "synthetic:8", "--max-batches", "4",
                "--out", folder_ / "run", "--resume", "auto", "-q"});
  EXPECT_EQ(resumed.exit_code, 3);
  EXPECT_NE(resumed.errors.find(": has 6 arrays of parameters, the net 4 (it belongs to another "
                                "net)\n"),
            std::string::npos)
      << resumed.errors;
}

}  // namespace
}  // namespace omni::test
