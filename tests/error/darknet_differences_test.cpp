// These tests check the warnings about cfg files that one of the two Darknets reads as another net
// than Omnivore does.
#include <gtest/gtest.h>

#include <string>

#include "layers/formats/darknet/darknet.hpp"
#include "layers/net.hpp"
#include "runtime/log.hpp"

namespace omni {
namespace {

struct Built {
  std::unique_ptr<Net> net;
  std::string said;
};

Built build(const std::string& layers, bool training = true) {
  const log::Capture said;
  const auto spec = parse_darknet_cfg("[net]\nheight=8\nwidth=8\n[conv]\nfilters=4\n" + layers +
                                          "[connected]\noutput=4\nactivation=linear\n[softmax]\n",
                                      "a.cfg");
  auto net = Net::build(*spec, {.training = training});
  EXPECT_TRUE(net) << net.error().message();
  return {std::move(*net), said.text()};
}

TEST(DarknetDifferences, AreSaid) {
  struct Row {
    const char *layers, *says;
  };
  for (const Row& row : {
           Row{"[dropout]\n",
               "a.cfg:6: [dropout] without probability drops 0.5, as pjreddie's Darknet does; "
               "AlexeyAB's drops 0.2"},
           Row{"[conv]\nsize=3\ndilation=2\n", "a.cfg:8: 'dilation' makes another size here"},
           Row{"[maxpool]\nsize=2\nstride=2\n[shortcut]\nfrom=0\n",
               "a.cfg:10: 'from' names a layer of another width or height"},
       }) {
    const Built built = build(row.layers);
    EXPECT_NE(built.said.find(row.says), std::string::npos) << built.said;
  }
  for (const char* key : {"groups=2", "temperature=2"}) {
    const log::Capture said;
    const auto spec = parse_darknet_cfg(
        "[net]\nheight=8\nwidth=8\n[connected]\noutput=4\n"
        "[softmax]\n" +
            std::string(key) + "\n",
        "a.cfg");
    ASSERT_TRUE(Net::build(*spec, {}));
    EXPECT_NE(said.text().find("a.cfg:7: '"), std::string::npos) << said.text();
  }
}

TEST(DarknetDifferences, AreNotSaidWhereThereAreNone) {
  for (const char* layers : {"[dropout]\nprobability=.5\n", "[conv]\nsize=3\npad=1\ndilation=2\n",
                             "[conv]\nsize=1\ndilation=2\n", "[shortcut]\nfrom=0\n",
                             "[conv]\nfilters=2\n[shortcut]\nfrom=0\n"})
    EXPECT_EQ(build(layers).said, "") << layers;
  EXPECT_EQ(build("[dropout]\n", false).said, "");
}

// The padding is multiplied by the dilation, so that the output of a convolution with pad=1 keeps
// the image's size.
TEST(DarknetDifferences, DilationMultipliesThePadding) {
  const auto side = [](const std::string& options) {
    return build("[conv]\n" + options).net->layers()[1]->output().extent.h;
  };
  EXPECT_EQ(side("size=3\npad=1\ndilation=2\n"), 8);
  EXPECT_EQ(side("size=5\npad=1\ndilation=3\n"), 8);
  EXPECT_EQ(side("size=3\npadding=1\ndilation=3\n"), 8);
  EXPECT_EQ(side("size=3\npad=1\ndilation=2\nstride=2\n"), 4);
  EXPECT_EQ(side("size=3\ndilation=2\n"), 4);
  EXPECT_EQ(side("size=1\npadding=1\ndilation=3\n"), 10);
}

TEST(DarknetDifferences, StopbackwardFreezesItsOwnLayerAndAllBefore) {
  const auto learning = [](const std::string& layers) {
    std::string names;
    const Built built = build(layers);
    for (const Param* param : built.net->params())
      if (param->trainable && param->name.ends_with("weights")) names += param->name.substr(0, 3);
    return names;
  };
  EXPECT_EQ(learning("[conv]\nfilters=4\n"), "000001002");
  EXPECT_EQ(learning("[conv]\nfilters=4\nstopbackward=1\n"), "002");
  // Layers before stopbackward=1 are frozen, even if a later [shortcut] reads their output.
  EXPECT_EQ(learning("[conv]\nfilters=4\nstopbackward=1\n[conv]\nfilters=4\n[shortcut]\nfrom=0\n"),
            "002004");
  EXPECT_EQ(learning("[route]\nlayers=0\nstopbackward=1\n"), "002");
  const log::Capture said;
  const auto spec = parse_darknet_cfg(
      "[net]\nheight=8\nwidth=8\n[connected]\noutput=4\nstopbackward=1\n[softmax]\n", "a.cfg");
  const auto net = Net::build(*spec, {});
  ASSERT_FALSE(net);
  EXPECT_EQ(net.error().message(),
            "a.cfg:6: no layer is left that learns (set it in an earlier layer)");
  EXPECT_TRUE(Net::build(*spec, {.training = false}));
}

}  // namespace
}  // namespace omni
