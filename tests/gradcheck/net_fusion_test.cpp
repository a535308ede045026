// What neighbouring layers do for each other: the same gradients as without, and only where nobody
// else reads what lies between.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/gradcheck/whole_net.hpp"

namespace omni {
namespace {

// The relu as part of the convolution, whose gradient the pooling then takes over, and as a layer
// of its own, where nothing is fused.
std::string relu_net(bool fused) {
  const std::string convolution = "[convolutional]\nfilters=6\nsize=3\npad=1\nactivation=";
  return "[net]\nbatch=4\nheight=9\nwidth=8\nchannels=2\n" + convolution +
         (fused ? "relu\n" : "linear\n[activation]\nactivation=relu\n") +
         "[maxpool]\nsize=3\nstride=2\n[connected]\noutput=4\nactivation=linear\n[softmax]\n";
}

TEST(WholeNet, PoolingTakesOverTheGradientOfARelu) {
  SessionOptions options;
  options.deterministic = true;  // the same implementations for both: the same bits
  const auto session = Session::start(options);
  ASSERT_TRUE(session);
  WholeNet fused(relu_net(true).c_str(), 2), apart(relu_net(false).c_str(), 2);
  EXPECT_EQ(fused.detail(1), apart.detail(2) + " + relu'");
  const auto expected = apart.gradients();
  EXPECT_EQ(fused.gradients(), expected);
  EXPECT_TRUE(
      std::any_of(expected[1].begin(), expected[1].end(), [](float value) { return value != 0; }));
}

// Somebody else reads what the relu made, so its gradient is not the pooling's alone.
TEST(WholeNet, ASecondReaderPreventsThat) {
  const auto session = Session::start({});
  ASSERT_TRUE(session);
  std::string text = relu_net(true);
  text.insert(text.find("[connected]"), "[route]\nlayers=0\n");
  EXPECT_EQ(WholeNet(text.c_str(), 2).detail(1).find("relu"), std::string::npos);
}

// The sum of a residual block as part of the normalisation before it, and, with `between` them, as
// a task of its own.
std::string residual_net(const std::string& between, int from) {
  const std::string convolution =
      "[convolutional]\nfilters=6\nsize=3\npad=1\nbatch_normalize=1\nactivation=";
  return "[net]\nbatch=5\nheight=7\nwidth=6\nchannels=2\n" + convolution + "tanh\n" + convolution +
         "linear\n" + between + "[shortcut]\nfrom=" + std::to_string(from) +
         "\nactivation=relu\n[connected]\noutput=4\nactivation=linear\n[softmax]\n";
}

TEST(WholeNet, NormalisationMakesTheSumOfAResidualBlock) {
  SessionOptions options;
  options.deterministic = true;
  const auto session = Session::start(options);
  ASSERT_TRUE(session);
  WholeNet fused(residual_net("", -2).c_str(), 2);
  WholeNet apart(residual_net("[route]\nlayers=-1\n", -3).c_str(), 2);
  EXPECT_EQ(fused.detail(2), "+ layer 0 (fused)");
  EXPECT_EQ(apart.detail(3), "+ layer 0");
  EXPECT_EQ(fused.loss(), apart.loss());
  EXPECT_EQ(fused.gradients(), apart.gradients());
  EXPECT_LT(fused.declared_bytes(), apart.declared_bytes());
}

TEST(WholeNet, OnlyAPlainSumIsLeftToTheNormalisation) {
  const auto session = Session::start({});
  ASSERT_TRUE(session);
  const auto with = [](std::string text, const std::string& what, const std::string& instead) {
    return WholeNet(text.replace(text.find(what), what.size(), instead).c_str(), 2).detail(2);
  };
  const std::string text = residual_net("", -2);
  EXPECT_EQ(with(text, "batch_normalize=1\nactivation=linear", "activation=linear"), "+ layer 0");
  EXPECT_EQ(with(text, "activation=linear", "activation=tanh"), "+ layer 0");
  EXPECT_EQ(with(text, "[shortcut]", "[shortcut]\nalpha=2"), "+ layer 0");
  EXPECT_EQ(with(text, "activation=relu", "activation=gelu"), "+ layer 0");
  EXPECT_EQ(with(text, "from=-2", "from=-1"), "+ layer 1");  // read twice
  EXPECT_EQ(with(text, "activation=relu", "activation=linear"), "+ layer 0 (fused)");
}

}  // namespace
}  // namespace omni
