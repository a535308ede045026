// These tests read nets of Caffe with several inputs, and with losses that have targets.
#include "layers/formats/darknet/darknet.hpp"
#include "tests/unit/caffe/read_nets.hpp"

namespace omni::test {
namespace {

std::string product(const std::string& from, const std::string& to, int outputs) {
  return fmt::format(
      "layer {{ name: '{1}' type: 'InnerProduct' bottom: '{0}' top: '{1}'\n"
      "  inner_product_param {{ num_output: {2} weight_filler {{ type: 'xavier' }} }} }}\n",
      from, to, outputs);
}
std::string loss(const std::string& type, const std::string& a, const std::string& b,
                 const std::string& more = "") {
  return fmt::format("layer {{ name: 'of {}' type: '{}' bottom: '{}' bottom: '{}' {} }}\n", a, type,
                     a, b, more);
}
std::vector<std::string> learning(const TrainableNet& net) {
  std::vector<std::string> names;
  const auto made = built(net);
  for (std::size_t i = 0; made != nullptr && i < made->layers().size(); ++i)
    for (const Param* param : made->layers()[i]->params())
      if (param->trainable && param->role == ParamRole::weights)
        names.push_back(net.layers[i].name);
  return names;
}

// Its second top has labels in any case.
const std::string kMemory =
    "layer { name: 'data' type: 'MemoryData' top: 'data' top: 'label' memory_data_param {\n"
    "  batch_size: 2 channels: 3 height: 16 width: 16 } }\n";

// An input is what layers read as values; else further blobs of `input` are labels.
TEST(CaffeInputs, are_blobs_that_are_read_as_values) {
  const std::string two =
      "input: 'data' input: 'more'\ninput_dim: 4 input_dim: 2 input_dim: 3 input_dim: 5\n"
      "input_dim: 4 input_dim: 7 input_dim: 1 input_dim: 1\n";
  EXPECT_TRUE(parsed(two + product("data", "s", 3) + loss("SoftmaxWithLoss", "s", "more"))
                  .augment.parts.empty());
  const TrainableNet net =
      parsed(two + product("data", "s", 7) + loss("EuclideanLoss", "s", "more"));
  ASSERT_EQ(net.augment.parts.size(), 2u);
  EXPECT_EQ(net.augment.parts[0].extent, (Extent{3, 5, 2}));
  EXPECT_EQ(net.augment.parts[1].extent, (Extent{1, 1, 7}));
  EXPECT_TRUE(net.augment.parts[1].augment.flat);
  EXPECT_EQ(net.options.batch, 4);
  EXPECT_EQ(std::get<PartOptions>(net.layers[1].options).first, 30);
  const TrainableNet tops = parsed(
      "layer { name: 'd' type: 'Input' top: 'data' top: 'label' top: 'more' input_param {\n"
      "  shape { dim: 4 dim: 6 } shape { dim: 4 dim: 1 } shape { dim: 4 dim: 7 } } }\n" +
      product("data", "s", 7) + loss("EuclideanLoss", "s", "more"));
  ASSERT_EQ(tops.augment.parts.size(), 2u);
  EXPECT_EQ(tops.augment.parts[1].name, "more");
  EXPECT_EQ(tops.augment.parts[1].extent.c, 7);
}

TEST(CaffeInputs, labels_come_with_the_input_whose_labels_are_read) {
  const auto data = [](const std::string& top, const std::string& label) {
    return fmt::format(
        "layer {{ name: '{0}' type: 'MemoryData' top: '{0}' {1} memory_data_param {{\n"
        "batch_size: 4 channels: 3 height: 8 width: 8 }} transform_param {{ {2} }} }}\n",
        top, label, top == "b" ? "mirror: true scale: 0.5" : "");
  };
  const std::string both = data("a", "") + data("b", "top: 'label'");
  const TrainableNet net =
      parsed(both + product("a", "s", 4) + loss("SoftmaxWithLoss", "s", "label"));
  EXPECT_FALSE(net.augment.parts[0].labels);
  EXPECT_TRUE(net.augment.parts[1].labels);
  EXPECT_TRUE(net.augment.parts[1].augment.flip);
  EXPECT_FALSE(net.augment.parts[0].augment.flip);
  EXPECT_EQ(net.augment.parts[1].augment.byte_values->scale, 0.5f);
}

// As Caffe's propagate_down rules say: EuclideanLoss teaches both bottoms, if both have parameters.
TEST(CaffeTargets, learn_unless_propagate_down_says_otherwise) {
  const std::string scores =
      std::string(kCaffeInput) + product("data", "p", 6) + product("data", "q", 6);
  EXPECT_EQ(learning(parsed(scores + loss("EuclideanLoss", "p", "q"))),
            (std::vector<std::string>{"p", "q"}));
  const std::string alone = "propagate_down: true propagate_down: false";
  EXPECT_EQ(learning(parsed(scores + loss("EuclideanLoss", "p", "q", alone))),
            (std::vector<std::string>{"p"}));
  EXPECT_EQ(learning(parsed(scores + loss("SigmoidCrossEntropyLoss", "p", "q", alone))),
            (std::vector<std::string>{"p"}));
}

TEST(CaffeTargets, cross_entropy_is_normalised_as_caffe_does) {
  const auto mean = [](const std::string& fields) {
    const TrainableNet net =
        parsed(std::string(kCaffeInput) + product("data", "p", 768) +
               loss("SigmoidCrossEntropyLoss", "p", "data", "loss_param { " + fields + " }"));
    return std::get<TargetOptions>(net.layers.back().options).mean;
  };
  EXPECT_FALSE(mean("")) << "by the batch, whatever the field's default says";
  EXPECT_FALSE(mean("normalization: BATCH_SIZE"));
  EXPECT_FALSE(mean("normalize: false"));
  EXPECT_FALSE(mean("normalization: BATCH_SIZE normalize: true"));
  EXPECT_TRUE(mean("normalize: true"));
  EXPECT_TRUE(mean("normalization: FULL"));
  EXPECT_TRUE(mean("normalization: VALID"));
}

// A loss with classes is the net's own, unless it is in training alone.
TEST(CaffeTargets, a_net_may_have_no_classes) {
  const std::string scores = kMemory + product("data", "p", 1) + product("data", "s", 4);
  const std::string classes = loss("SoftmaxWithLoss", "s", "label"),
                    number = loss("EuclideanLoss", "p", "label");
  EXPECT_EQ(built(parsed(scores + number))->classes(), 0);
  EXPECT_EQ(built(parsed(scores + number))->outputs(), 1);
  EXPECT_EQ(built(parsed(scores + classes + number))->classes(), 4);
  EXPECT_EQ(built(parsed(scores + number + classes))->classes(), 4);
  EXPECT_EQ(
      built(parsed(scores + loss("SoftmaxWithLoss", "s", "label", "include { phase: TRAIN }") +
                   number))
          ->classes(),
      0);
}

// This is the net of Caffe's example mnist_autoencoder, made shorter. Its tests have stages, its
// losses one name, and the second loss no weight.
TEST(CaffeTargets, the_autoencoder_of_caffe_is_read) {
  const std::string data =
      "layer {{ name: 'data' type: 'Data' top: 'data' include {{ {} }}\n"
      "  transform_param {{ scale: 0.0039215684 }}\n"
      "  data_param {{ source: 'mnist_train_lmdb' batch_size: 100 backend: LMDB }} }}\n";
  const TrainableNet net =
      parsed(fmt::format(fmt::runtime(data), "phase: TRAIN") +
                 fmt::format(fmt::runtime(data), "phase: TEST stage: 'test-on-train'") +
                 fmt::format(fmt::runtime(data), "phase: TEST stage: 'test-on-test'") +
                 "layer { name: 'flatdata' type: 'Flatten' bottom: 'data' top: 'flatdata' }\n" +
                 product("data", "encode", 30) +
                 "layer { name: 'n' type: 'Sigmoid' bottom: 'encode' top: 'encoden' }\n" +
                 product("encoden", "decode", 784) +
                 "layer { name: 'loss' type: 'SigmoidCrossEntropyLoss' bottom: 'decode' bottom: "
                 "'flatdata'\n"
                 "  top: 'cross_entropy_loss' loss_weight: 1 }\n"
                 "layer { name: 'd' type: 'Sigmoid' bottom: 'decode' top: 'decoden' }\n"
                 "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'decoden' bottom: 'flatdata'\n"
                 "  top: 'l2_error' loss_weight: 0 }\n",
             "", {.settings = {"height=28", "width=28", "channels=1"}});
  const auto made = built(net);
  ASSERT_NE(made, nullptr);
  EXPECT_TRUE(net.augment.parts.empty());
  EXPECT_EQ(net.layers.back().type, "target");
  EXPECT_EQ(made->classes(), 0);
  EXPECT_EQ(made->parameter_count(), 784u * 30 + 30 + 30 * 784 + 784);
}

TEST(DarknetInputs, a_section_names_an_input_or_that_of_net) {
  const auto net = parse_darknet_cfg(
      "[net]\nbatch=2\nheight=4\nwidth=3\nchannels=2\nflip=1\n[connected]\noutput=6\n"
      "[input]\nname=facts\ninputs=6\n[input]\n[target]\nfrom=0\nloss_weight=2\n"
      "[route]\nlayers=0\n[target]\nfrom=1\ntype=logistic\nmean=1\nteach=0\n",
      "n.cfg");
  ASSERT_TRUE(net) << net.error().message();
  ASSERT_EQ(net->augment.parts.size(), 2u);
  EXPECT_TRUE(net->augment.parts[0].augment.flip && net->augment.parts[0].labels);
  EXPECT_EQ(net->augment.parts[1].name, "facts");
  EXPECT_EQ(net->layers[1].type, "part") << "in front of layers that the file has before it";
  EXPECT_EQ(net->layers[1].where, "n.cfg:9");
  EXPECT_TRUE(net->augment.parts[1].augment.flat && !net->augment.parts[1].augment.flip);
  const auto refused = Net::build(*net, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "n.cfg:14: compares 24 values with 6 of its target (both have as many values)");
  const auto refusal = [](const std::string& section) {
    const auto read = parse_darknet_cfg(
        "[net]\ninputs=4\n[connected]\noutput=2\n" + section + "[connected]\n[softmax]\n", "n.cfg");
    return read ? "" : read.error().message();
  };
  EXPECT_EQ(refusal("[input]\nname=x\n").substr(0, 53),
            "n.cfg:6: [input] has a name, but no size (a further i");
  EXPECT_EQ(refusal("[input]\ninputs=4\n").substr(0, 33), "n.cfg:5: [input] has no name (a f");
  EXPECT_EQ(refusal("[input]\nname=x\nheight=4\n"),
            "n.cfg:5: [input] has no width (add it; or inputs= for vectors)");
  EXPECT_EQ(refusal("[input]\nname=data\ninputs=4\n"),
            "n.cfg:5: another input has the name 'data', too (--data tells inputs by their names)");
}

}  // namespace
}  // namespace omni::test
