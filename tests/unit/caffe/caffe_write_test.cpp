// These tests write nets as prototxt and as cfg, read the text again, and compare the nets.
#include "tests/unit/caffe/write_nets.hpp"

namespace omni::test {
namespace {

TEST(CaffeWrite, shipped_nets_of_caffe_lose_nothing) {
  for (const char* name :
       {"lenet", "cifar10_quick", "cifar10_full", "alexnet", "caffenet", "googlenet"}) {
    SCOPED_TRACE(name);
    TrainableNet again, third;
    std::string text, second;
    const TrainableNet net = shipped(name);
    EXPECT_EQ(lost(net, true, MayLose::nothing, again, text), "");
    again.name = net.name;
    EXPECT_EQ(lost(again, true, MayLose::nothing, third, second), "");
    EXPECT_EQ(text, second);
    EXPECT_EQ(again.files.train, net.files.train);
    EXPECT_EQ(again.augment, net.augment);
  }
}

TEST(CaffeWrite, shipped_nets_of_darknet_come_back) {
  for (const char* name :
       {"lenet", "cifar10-quick", "mlp", "alexnet", "caffenet", "covtype-mlp", "darknet19",
        "resnet-18-32", "resnet-18", "resnet-50", "small-photos", "vgg-16", "w8a-mlp"}) {
    SCOPED_TRACE(name);
    const auto net = read_darknet_cfg(OMNI_SOURCE_DIR "/apps/nets/" + std::string(name) + ".cfg");
    ASSERT_TRUE(net) << net.error().message();
    TrainableNet caffe, back;
    std::string text;
    EXPECT_EQ(lost(*net, true, MayLose::training, caffe, text), "");
    EXPECT_EQ(lost(caffe, false, MayLose::training, back, text), "");
    const auto first = made(*net), last = made(back);
    ASSERT_NE(last, nullptr);
    EXPECT_TRUE(check_same_net({*first, *net, "a"}, {*last, back, "b"}, MayLose::training));
    EXPECT_EQ(back.options.batch * net->options.subdivisions, net->options.batch);
  }
}

// A cfg without batch normalisation keeps its initial values, rates and decays in a prototxt.
TEST(CaffeWrite, a_cfg_loses_nothing_that_caffe_has) {
  for (const char* name : {"lenet", "mlp", "vgg-16", "caffenet"}) {
    SCOPED_TRACE(name);
    const auto net = read_darknet_cfg(OMNI_SOURCE_DIR "/apps/nets/" + std::string(name) + ".cfg");
    ASSERT_TRUE(net) << net.error().message();
    TrainableNet again;
    std::string text;
    EXPECT_EQ(lost(*net, true, MayLose::nothing, again, text), "");
  }
}

TEST(CaffeWrite, every_type_of_layer_comes_back) {
  for (const char* layer :
       {"type: 'Convolution' param { lr_mult: 2 } param { lr_mult: 3 decay_mult: 0 }\n"
        "convolution_param { num_output: 6 kernel_h: 2 kernel_w: 3 stride: 2 pad_h: 1 group: 3\n"
        "dilation: 1 dilation: 2 weight_filler { type: 'gaussian' mean: 1 sparse: 2 } }",
        "type: 'Convolution' convolution_param { num_output: 3 kernel_size: 3 bias_term: false\n"
        "weight_filler { type: 'msra' variance_norm: AVERAGE } }",
        "type: 'Deconvolution' convolution_param { num_output: 6 kernel_size: 4 stride: 2 pad: 1\n"
        "group: 3 weight_filler { type: 'bilinear' } }",
        "type: 'Pooling' pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }",
        "type: 'Pooling' pooling_param { kernel_size: 5 stride: 2 round_mode: FLOOR }",
        "type: 'Pooling' pooling_param { global_pooling: true }",
        "type: 'LRN' lrn_param { alpha: 0.1 beta: 0.5 k: 2 }",
        "type: 'LRN' lrn_param { norm_region: WITHIN_CHANNEL }",
        "type: 'BatchNorm' batch_norm_param { moving_average_fraction: 0.9 eps: 0.01 }",
        "type: 'BatchNorm' batch_norm_param { use_global_stats: true }",
        "type: 'Scale' scale_param { bias_term: true filler { type: 'constant' value: 2 } }",
        "type: 'Scale'",
        "type: 'Bias' param { lr_mult: 2 }",
        "type: 'PReLU' prelu_param { channel_shared: true }",
        "type: 'PReLU' param { lr_mult: 0 }",
        "type: 'ReLU' relu_param { negative_slope: 0.3 }",
        "type: 'ReLU' relu_param { negative_slope: 0.1 }",
        "type: 'Sigmoid'",
        "type: 'TanH'",
        "type: 'ELU'",
        "type: 'ELU' elu_param { alpha: 0.5 }",
        "type: 'AbsVal'",
        "type: 'BNLL'",
        "type: 'Power' power_param { power: 2 scale: 3 shift: 0.1 }",
        "type: 'Dropout' dropout_param { dropout_ratio: 0.2 }",
        "bottom: 'data' bottom: 'data' type: 'Eltwise'",
        "bottom: 'data' type: 'Eltwise' eltwise_param { coeff: 1 coeff: -2 }",
        "bottom: 'data' bottom: 'data' type: 'Eltwise' eltwise_param { operation: MAX }",
        "bottom: 'data' type: 'Eltwise' eltwise_param { operation: PROD }",
        "bottom: 'data' type: 'Concat'",
        "type: 'Flatten'",
        "top: 'y' type: 'Split'",
        "top: 'y' type: 'Slice' slice_param { slice_point: 1 }",
        "top: 'y' top: 'z' type: 'Slice'"}) {
    SCOPED_TRACE(layer);
    TrainableNet again;
    std::string text;
    EXPECT_EQ(lost(with_layer(layer), true, MayLose::nothing, again, text), "");
  }
}

TEST(CaffeWrite, losses_come_back_in_both_forms) {
  const TrainableNet net = parsed(
      "layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 2 }\n"
      "transform_param { crop_size: 8 scale: 0.00392156886 mirror: true } }\n"
      "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a'\n"
      "  inner_product_param { num_output: 4 } }\n"
      "layer { name: 'aux' type: 'SoftmaxWithLoss' bottom: 'a' bottom: 'label'\n"
      "  loss_weight: 0.3 }\n"
      "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b'\n"
      "  inner_product_param { num_output: 4 } }\n"
      "layer { name: 'own' type: 'SoftmaxWithLoss' bottom: 'b' bottom: 'label' }\n");
  for (const bool caffe : {true, false}) {
    TrainableNet again;
    std::string text;
    EXPECT_EQ(lost(net, caffe, caffe ? MayLose::nothing : MayLose::training, again, text), "");
    float sum = 0;
    for (const LayerDescription& layer : again.layers)
      if (layer.type == "softmax") sum += layer.loss_weight;
    EXPECT_EQ(sum, 1.3f) << text;
    EXPECT_TRUE(again.augment.flip);
  }
}

// Ignored labels and the divisor of the loss are kept, and a cfg has neither.
TEST(CaffeWrite, ignored_labels_come_back) {
  const auto with = [](const std::string& loss, const std::string& accuracy) {
    return parsed(std::string(kCaffeInput) +
                  "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a'\n"
                  "  inner_product_param { num_output: 4 } }\n"
                  "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'a' bottom: 'label'\n"
                  "  loss_param { " +
                  loss + " } }\nlayer { name: 'm' type: 'Accuracy' bottom: 'a' bottom: 'label' " +
                  accuracy + " }\n");
  };
  for (const auto& [loss, accuracy] :
       {std::pair("ignore_label: 2", "accuracy_param { ignore_label: 3 }"),
        std::pair("ignore_label: 9 normalization: FULL", "accuracy_param { ignore_label: 9 }"),
        std::pair("normalization: NONE", "")}) {
    SCOPED_TRACE(loss);
    const TrainableNet net = with(loss, accuracy);
    TrainableNet again;
    std::string text;
    EXPECT_EQ(lost(net, true, MayLose::nothing, again, text), "");
    const auto was = options_of<SoftmaxOptions>(net, 1), is = options_of<SoftmaxOptions>(again, 1);
    EXPECT_EQ(is.ignored, was.ignored) << text;
    EXPECT_EQ(is.not_judged, was.not_judged) << text;
    EXPECT_EQ(is.mean, was.mean) << text;
    EXPECT_NE(lost(net, false, MayLose::training, again, text).find("(a .cfg has none)"),
              std::string::npos);
  }
}

// Caffe's softmax is over channels, so a Flatten stands before one of several pixels.
TEST(CaffeWrite, a_softmax_of_several_pixels_reads_a_flattened_blob) {
  for (const char* end : {"[softmax]\n", "[softmax]\nnoloss=1\n"}) {
    const auto net =
        parse_darknet_cfg(std::string("[net]\nbatch=2\nheight=4\nwidth=4\nchannels=3\n"
                                      "[convolutional]\nfilters=2\nsize=3\nactivation=linear\n") +
                              end,
                          "n.cfg");
    ASSERT_TRUE(net) << net.error().message();
    TrainableNet again;
    std::string text;
    EXPECT_EQ(lost(*net, true, MayLose::nothing, again, text), "");
    EXPECT_NE(text.find("type: \"Flatten\""), std::string::npos) << text;
  }
}

TEST(CaffeWrite, what_training_would_lose_is_named_by_itself) {
  const auto said = [](const std::string& of_layer, const std::string& of_loss, MayLose may_lose) {
    const auto net = parse_darknet_cfg(
        "[net]\nbatch=2\ninputs=4\nlabel_smooth_eps=0.1\n[connected]\noutput=3\n" + of_layer +
            "[softmax]\n" + of_loss,
        "n.cfg");
    EXPECT_TRUE(net) << net.error().message();
    TrainableNet again;
    std::string text;
    return lost(*net, true, may_lose, again, text);
  };
  const auto has = [](const std::string& text, const char* what) {
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  // The prototxt keeps the weight of the loss.
  const std::string smooth = said("", "loss_weight=0.5\n", MayLose::nothing);
  has(smooth, ": this would be lost: n.cfg:7: label_smooth_eps 0.1 (nothing was written");
  has(said("stopbackward=1\n", "", MayLose::nothing),
      "n.cfg:5: stops backward; n.cfg:8: label_smooth_eps 0.1 (");
  for (const MayLose may_lose : {MayLose::nothing, MayLose::training})
    has(said("dontload=1\n", "", may_lose), "n.cfg:5 has dontload");
}

// Returns the text of a cfg, or the error message.
std::string cfg_of(const TrainableNet& described) {
  const auto net = made(described);
  if (net == nullptr) return "no net";
  auto written = write_darknet_cfg(described, *net);
  return written ? *written : written.error().message();
}

TEST(CaffeWrite, a_cfg_has_the_rate_of_the_weights) {
  const auto with_rates = [](const std::string& fields) { return cfg_of(with_layer(fields)); };
  const std::string filters = " convolution_param { num_output: 2 kernel_size: 1 }";
  const auto has = [](const std::string& text, const char* what) {
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  has(with_rates("type: 'Convolution' param { lr_mult: 0.5 } param { lr_mult: 2 }" + filters),
      "learning_rate=0.5\n");
  has(with_rates("type: 'Convolution' param { lr_mult: 0 } param { lr_mult: 2 }" + filters),
      "learning_rate=0\n");
  has(with_rates("type: 'Scale' scale_param { bias_term: true }\n"
                 "param { lr_mult: 3 } param { lr_mult: 4 }"),
      "learning_rate=3\n");
  EXPECT_EQ(with_rates("type: 'Convolution' param { lr_mult: 1 } param { lr_mult: 2 }" + filters)
                .find("learning_rate"),
            std::string::npos);
}

const std::string kScaled =
    "layer { name: 'd' type: 'MemoryData' top: 'data' top: 'label'\n"
    "  transform_param { scale: 0.003921569 }\n"
    "  memory_data_param { batch_size: 4 channels: 3 height: 6 width: 7 } }\n";

// In a cfg, [input] gives the image a number, where layers behind the first read it.
TEST(CaffeWrite, a_cfg_joins_the_image) {
  const std::string
      split = "layer { name: 's' type: 'Split' bottom: 'data' top: 's' }\n",
      join = "layer { name: 's' type: 'Concat' bottom: 'data' bottom: 'data' top: 's' }\n",
      sum = "layer { name: 's' type: 'Eltwise' bottom: 'data' bottom: 'data' top: 's' }\n";
  for (const std::string& first : {split, join, sum}) {
    SCOPED_TRACE(first);
    const std::string filler = "weight_filler { type: 'xavier' }";
    const TrainableNet net =
        parsed(kScaled + first +
               "layer { name: 'c' type: 'Convolution' bottom: 's' top: 'last'\n"
               "convolution_param { num_output: 2 kernel_size: 1 " +
               filler + " } }\n" + kCaffeLoss);
    TrainableNet again;
    std::string text;
    EXPECT_EQ(lost(net, false, MayLose::training, again, text), "") << text;
    EXPECT_EQ(text.find("[input]"), text.rfind("[input]")) << text;
  }
}

// Returns a net with two images, of which one is a target, a loss with classes, and one without.
TrainableNet two_images() {
  const std::string transform = "transform_param { scale: 0.003921569 } ";
  const auto data = [&](const std::string& tops, const std::string& fields) {
    return "layer { name: 'd' type: 'MemoryData' " + tops + transform + "memory_data_param {\n" +
           fields + " } }\n";
  };
  return parsed(data("top: 'data' top: 'label' ", "batch_size: 4 channels: 3 height: 5 width: 4") +
                data("top: 'depth' ", "batch_size: 4 channels: 1 height: 6 width: 7") +
                "layer { name: 'a' type: 'Convolution' bottom: 'data' top: 'a'\n"
                "  convolution_param { num_output: 3 kernel_size: 3 } }\n"
                "layer { name: 'b' type: 'InnerProduct' bottom: 'depth' top: 'b'\n"
                "  inner_product_param { num_output: 18 } }\n"
                "layer { name: 'guess' type: 'InnerProduct' bottom: 'a' top: 'guess'\n"
                "  inner_product_param { num_output: 42 } }\n"
                "layer { name: 'scores' type: 'InnerProduct' bottom: 'b' top: 'scores'\n"
                "  inner_product_param { num_output: 5 } }\n"
                "layer { name: 'l1' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'label' }\n"
                "layer { name: 'l2' type: 'EuclideanLoss' bottom: 'guess' bottom: 'depth' }\n"
                "layer { name: 'l3' type: 'SigmoidCrossEntropyLoss' bottom: 'a' bottom: 'b'\n"
                "  propagate_down: true propagate_down: false loss_weight: 0.25\n"
                "  loss_param { normalization: FULL } }\n");
}

TEST(CaffeWrite, several_inputs_and_targets_lose_nothing) {
  const TrainableNet net = two_images();
  ASSERT_EQ(net.augment.parts.size(), 2u);
  EXPECT_EQ(net.options.input, (Extent{1, 1, 60 + 42}));
  EXPECT_EQ(net.layers.back().name, "l1") << "the loss of classes is the net's own";
  TrainableNet again, cfg, back;
  std::string text;
  EXPECT_EQ(lost(net, true, MayLose::nothing, again, text), "");
  EXPECT_EQ(again.augment, net.augment);
  EXPECT_EQ(lost(net, false, MayLose::training, cfg, text), "");
  ASSERT_EQ(cfg.augment.parts.size(), 2u) << text;
  EXPECT_EQ(cfg.augment.parts[1].name, "depth");
  EXPECT_EQ(cfg.augment.parts[1].extent, (Extent{6, 7, 1}));
  EXPECT_EQ(lost(cfg, true, MayLose::training, back, text), "");
  EXPECT_EQ(back.augment.parts[0].name, "data");
  const auto first = made(net), last = made(back);
  EXPECT_TRUE(check_same_net({*first, net, "a"}, {*last, back, "b"}, MayLose::training));
}

TEST(CaffeWrite, other_inputs_are_another_net) {
  const TrainableNet net = two_images();
  TrainableNet other = net;
  const auto refused = [&] {
    const auto first = made(net), last = made(other);
    const Status same = check_same_net({*first, net, "a"}, {*last, other, "b"}, MayLose::nothing);
    return same ? "" : same.error().what;
  };
  EXPECT_EQ(refused(), "");
  other.augment.parts[1].name = "x";
  EXPECT_NE(refused().find("the name 'depth' of an input"), std::string::npos);
  other = net;
  other.augment.parts[1].augment.flip = true;
  EXPECT_NE(refused().find("mirrored images"), std::string::npos);
  other = net;
  other.augment.parts[1].augment.byte_values->scale = 1;
  EXPECT_NE(refused().find("its input is"), std::string::npos);
  other = net;
  for (LayerDescription& layer : other.layers)
    if (auto* target = std::get_if<TargetOptions>(&layer.options)) target->mean = false;
  EXPECT_NE(refused().find("mean"), std::string::npos);
}

TEST(CaffeWrite, a_cfg_has_one_smoothing) {
  const auto net = parse_darknet_cfg(
      "[net]\nbatch=2\ninputs=4\nlabel_smooth_eps=0.1\n[connected]\noutput=3\n"
      "[softmax]\nloss_weight=0.5\n[route]\nlayers=-2\n[connected]\noutput=3\n[softmax]\n",
      "n.cfg");
  ASSERT_TRUE(net) << net.error().message();
  const std::string text = cfg_of(*net);
  EXPECT_EQ(text.find("label_smooth_eps"), text.rfind("label_smooth_eps")) << text;
  EXPECT_NE(text.find("label_smooth_eps=0.1\n"), std::string::npos) << text;
  TrainableNet other = *net;
  std::get<SoftmaxOptions>(other.layers.back().options).smoothing = 0;
  EXPECT_NE(cfg_of(other).find("another label_smooth_eps"), std::string::npos);
}

}  // namespace
}  // namespace omni::test
