// Some layers compute a part of their neighbour's work. These tests check that gradients are the
// same as without, and that it happens only where no third layer reads the value in between.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/gradcheck/net/whole_net.hpp"
#include "tests/support/deterministic_session.hpp"
#include "tests/support/net_text.hpp"

namespace omni {
namespace {

// The session is deterministic, so fused and separate nets use the same implementations and have
// the same bits.
class NetFusion : public test::DeterministicSession {};

// With `fused`, relu is part of the convolution, and the pooling computes relu's gradient.
// Otherwise relu is a layer of its own, and nothing is fused.
std::string relu_net(bool fused, const std::string& more = "") {
  const std::string options = "pad=1\n" + more;
  return test::net(4, {9, 8, 2}) +
         (fused ? test::convolutional(6, "relu", options)
                : test::convolutional(6, "linear", options) +
                      test::layer("activation", "activation=relu\n")) +
         test::layer("maxpool", "size=3\nstride=2\n") + test::connected(4) + test::layer("softmax");
}

TEST_F(NetFusion, PoolingTakesOverTheGradientOfARelu) {
  for (const std::string more : {"", "batch_normalize=1\n"})
    for (const int slice : {2, 4}) {
      WholeNet fused(relu_net(true, more), slice);
      WholeNet apart(relu_net(false, more), slice);
      EXPECT_EQ(fused.in_one_task(1), "relu gradient");
      EXPECT_EQ(apart.in_one_task(2), "");
      const auto expected = apart.gradients();
      EXPECT_EQ(fused.gradients(), expected);
      EXPECT_TRUE(std::any_of(expected[1].begin(), expected[1].end(),
                              [](float value) { return value != 0; }));
    }
}

// The [route] also reads relu's output, so the pooling must not compute relu's gradient.
TEST_F(NetFusion, ASecondReaderPreventsThat) {
  std::string text = relu_net(true);
  text.insert(text.find("[connected]"), "[route]\nlayers=0\n");
  EXPECT_EQ(WholeNet(text, 2).in_one_task(1), "");
}

std::string normalised(const char* activation) {
  return test::convolutional(6, activation, "pad=1\nbatch_normalize=1\n");
}
std::string shortcut(int from, const char* activation) {
  return test::layer("shortcut",
                     "from=" + std::to_string(from) + "\nactivation=" + activation + "\n");
}

// Returns a net with a residual block. Its sum is part of the normalisation before it, or, with
// layers `between` the two, a task of its own.
std::string residual_net(const std::string& between, int from) {
  return test::net(5, {7, 6, 2}) + normalised("tanh") + normalised("linear") + between +
         shortcut(from, "relu") + test::connected(4) + test::layer("softmax");
}

int tasks_of_layer(WholeNet& net, int layer) {
  const std::vector<CapturedTask> tasks = net.tasks(true);
  return static_cast<int>(std::ranges::count(tasks, layer, &CapturedTask::layer));
}

TEST_F(NetFusion, NormalisationMakesTheSumOfAResidualBlock) {
  for (const int slice : {2, 5}) {
    WholeNet fused(residual_net("", -2), slice);
    WholeNet apart(residual_net("[route]\nlayers=-1\n", -3), slice);
    EXPECT_EQ(fused.in_one_task(1), "norm sum relu");
    EXPECT_EQ(fused.in_one_task(2), "in layer 1");
    EXPECT_EQ(apart.in_one_task(1), "norm");
    EXPECT_EQ(apart.in_one_task(3), "sum relu");
    EXPECT_EQ(fused.loss(), apart.loss());
    EXPECT_EQ(fused.gradients(), apart.gradients());
    EXPECT_LT(fused.declared_bytes(), apart.declared_bytes());
    // The fused sum has no task in the backward pass either.
    EXPECT_EQ(tasks_of_layer(fused, 2), 0);
    EXPECT_GT(tasks_of_layer(apart, 3), 0);
  }
}

// A [batchnorm] layer does not compute the sum of a residual block, because its single task has no
// buffer for the gradient of its input.
TEST_F(NetFusion, LayersOfNormalisationLeaveTheSumApart) {
  const auto net = [](const std::string& between, int from) {
    const std::string filter = "filters=6\nsize=3\npad=1\nactivation=";
    return test::net(5, {7, 6, 2}) + test::layer("convolutional", filter + "tanh\n") +
           test::layer("convolutional", filter + "linear\n") + test::layer("batchnorm", "") +
           between + shortcut(from, "relu") + test::connected(4) + test::layer("softmax");
  };
  for (const int slice : {2, 5})
    for (const int from : {-2, -3}) {
      WholeNet direct(net("", from), slice), branched(net("[route]\nlayers=-1\n", from - 1), slice);
      EXPECT_EQ(direct.in_one_task(2), "norm");
      EXPECT_EQ(direct.loss(), branched.loss());
      EXPECT_EQ(direct.evaluation_loss(), branched.evaluation_loss());
      EXPECT_EQ(direct.gradients(), branched.gradients());
    }
}

// Other layers also read the addends of these sums: one has newer readers, one follows a branch
// point, and one has no other reader. With `apart`, a linear activation before each sum keeps the
// sums separate.
std::string shared_addends_net(bool apart) {
  const auto sum = [&](int from) {
    return normalised("linear") + (apart ? test::layer("activation", "activation=linear\n") : "") +
           shortcut(from, "tanh");
  };
  const int first_sum = apart ? 3 : 2;
  return test::net(5, {7, 6, 2}) + normalised("tanh") + sum(0) +
         test::layer("route", "layers=0\n") + sum(first_sum + 1) + sum(first_sum) +
         test::layer("route", "layers=-1\n") + test::layer("avgpool", "size=2\nstride=2\n") +
         test::connected(4) + test::layer("softmax");
}

TEST_F(NetFusion, SumsWhoseAddendsOthersReadToo) {
  for (const int slice : {2, 5}) {
    WholeNet fused(shared_addends_net(false), slice), apart(shared_addends_net(true), slice);
    // The first sum's addend gets its gradient from the second sum, which then adds the gradient of
    // the first sum.
    const std::vector<CapturedTask> tasks = fused.tasks(true);
    EXPECT_EQ(std::ranges::count(tasks, "residual_backward", &CapturedTask::codelet),
              (5 + slice - 1) / slice);
    EXPECT_EQ(fused.loss(), apart.loss());
    EXPECT_EQ(fused.evaluation_loss(), apart.evaluation_loss());
    EXPECT_EQ(fused.gradients(), apart.gradients());
  }
}

TEST_F(NetFusion, OnlyAPlainSumIsLeftToTheNormalisation) {
  const auto with = [](std::string text, const std::string& what, const std::string& instead) {
    return WholeNet(text.replace(text.find(what), what.size(), instead), 2).in_one_task(2);
  };
  const std::string text = residual_net("", -2);
  EXPECT_EQ(with(text, "linear\npad=1\nbatch_normalize=1\n", "linear\npad=1\n"), "sum relu");
  EXPECT_EQ(with(text, "activation=linear", "activation=tanh"), "sum relu");
  EXPECT_EQ(with(text, "[shortcut]", "[shortcut]\nalpha=2"), "sum relu");
  EXPECT_EQ(with(text, "activation=relu", "activation=gelu"), "sum");
  EXPECT_EQ(with(text, "from=-2", "from=-1"), "sum relu");  // read twice
  EXPECT_EQ(with(text, "activation=relu", "activation=linear"), "in layer 1");
}

// A layer after a branch point reads its input without a copy.
TEST_F(NetFusion, ABranchPointCostsNothing) {
  const auto net = [](const std::string& between) {
    return "[net]\nbatch=5\nheight=7\nwidth=6\nchannels=2\n"
           "[convolutional]\nfilters=6\nsize=3\nactivation=tanh\n" +
           between + "[connected]\noutput=4\nactivation=linear\n[softmax]\n";
  };
  WholeNet straight(net(""), 2), branched(net("[route]\nlayers=-1\n"), 2),
      twice(net("[route]\nlayers=-1\n[route]\nlayers=1\n"), 2),
      cut(net("[route]\nlayers=-1\nstopbackward=1\n"), 2);
  EXPECT_EQ(branched.in_one_task(1), "no copy");
  for (WholeNet* each : {&branched, &twice}) {
    EXPECT_EQ(each->loss(), straight.loss());
    EXPECT_EQ(each->gradients(), straight.gradients());
    EXPECT_EQ(each->declared_bytes(), straight.declared_bytes());
  }
  EXPECT_EQ(cut.loss(), straight.loss());
  EXPECT_EQ(cut.trainable().size(), 2u);  // of the connected layer
}

// Returns a net whose dropout overwrites the output of the layer before, or, after a branch point,
// has an output of its own. The mask depends on the layer's number, which is the same in both nets.
std::string dropout_net(const std::string& layer, bool in_place) {
  const std::string branch = "[route]\nlayers=-1\n";
  return "[net]\nbatch=6\nheight=9\nwidth=8\nchannels=2\n" +
         (in_place ? "[activation]\nactivation=linear\n" + layer : layer + branch) +
         "[dropout]\n[connected]\noutput=4\nactivation=linear\n[softmax]\n";
}

TEST_F(NetFusion, DropoutInPlace) {
  const std::string filter = "[convolutional]\nfilters=6\nsize=3\npad=1\nactivation=";
  const std::string split = "[connected]\noutput=1024\nactivation=relu\n";
  for (const std::string& layer :
       {filter + "linear\n", filter + "relu\n", filter + "leaky\n", filter + "gelu\n",
        std::string("[connected]\noutput=9\nactivation=relu\n"), split + split,
        std::string("[avgpool]\nsize=2\nstride=2\n"),
        filter + "relu\n[maxpool]\nsize=2\nstride=2\n",
        std::string("[deconvolutional]\nfilters=3\nsize=2\nstride=2\nactivation=relu\n"),
        std::string("[local]\nfilters=3\nsize=3\nactivation=relu\n")}) {
    SCOPED_TRACE(layer);
    WholeNet in_place(dropout_net(layer, true), 4), apart(dropout_net(layer, false), 4);
    const std::size_t dropout = layer.find("[", 1) == std::string::npos ? 2 : 3;
    EXPECT_EQ(in_place.in_one_task(dropout), "in place");
    EXPECT_EQ(apart.in_one_task(dropout), "");
    EXPECT_EQ(in_place.loss(), apart.loss());
    EXPECT_EQ(in_place.evaluation_loss(), apart.evaluation_loss());
    EXPECT_EQ(in_place.gradients(), apart.gradients());
  }
  // The gradients of these layers read their outputs, so dropout may not change the outputs.
  for (const std::string& layer : {filter + "logistic\n", filter + "relu\nbatch_normalize=1\n",
                                   std::string("[normalization]\n")})
    EXPECT_EQ(WholeNet(dropout_net(layer, true), 4).in_one_task(2), "") << layer;
  const std::string two_readers = dropout_net(filter + "relu\n", true);
  EXPECT_EQ(WholeNet(std::string(two_readers)
                         .insert(two_readers.find("[softmax]"),
                                 "[route]\nlayers=1\n[connected]\noutput=4\n"),
                     4)
                .in_one_task(2),
            "");
}

}  // namespace
}  // namespace omni
