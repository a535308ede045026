// These tests check which net omni-run makes of Caffe's prototxt files. The prototxt files that it
// refuses are tested in tests/error/caffe.
#include <algorithm>
#include <cmath>

#include "codelets/elementwise/activation_functors.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/unit/caffe/read_nets.hpp"

namespace omni::test {
namespace {

TEST(CaffeNet, lenet_has_caffes_shapes_parameters_and_solver) {
  const TrainableNet read = shipped("lenet");
  EXPECT_EQ(read.name, "lenet_train_test");
  EXPECT_EQ(read.options.batch, 64);
  EXPECT_EQ(read.options.input, (Extent{28, 28, 1}));
  ASSERT_TRUE(read.augment.byte_values);
  EXPECT_EQ(read.augment.byte_values->scale, 0.00390625f);
  EXPECT_FALSE(read.augment.flip);
  const auto net = built(read);
  ASSERT_NE(net, nullptr);
  EXPECT_EQ(outputs(*net),
            (std::vector<std::string>{"convolutional 24x24x20", "maxpool 12x12x20",
                                      "convolutional 8x8x50", "maxpool 4x4x50", "connected 1x1x500",
                                      "connected 1x1x10", "softmax 1x1x10"}));
  EXPECT_EQ(net->parameter_count(), 431'080u);
  const float fans[] = {25, 0, 500, 0, 800, 500};
  for (const std::size_t at : {0u, 2u, 4u, 5u})
    for (const Param* param : net->layers()[at]->params()) {
      const bool weights = param->role == ParamRole::weights;
      EXPECT_EQ(param->rate, weights ? 1 : 2);
      EXPECT_EQ(param->decay, 1) << "in Caffe biases decay, too";
      EXPECT_EQ(param->filler.kind, weights ? Filler::Kind::uniform : Filler::Kind::constant);
      if (weights) {
        EXPECT_FLOAT_EQ(param->filler.scale, std::sqrt(3 / fans[at]));
      }
    }
  EXPECT_EQ(options_of<ConnectedOptions>(read, 4).activation, Activation::relu);
  EXPECT_EQ(options_of<ConnectedOptions>(read, 5).activation, Activation::linear);
  EXPECT_EQ(read.solver.learning_rate, 0.01f);
  EXPECT_EQ(read.solver.momentum, 0.9f);
  EXPECT_EQ(read.solver.decay, 0.0005f);
  EXPECT_EQ(read.solver.policy, RatePolicy::inv);
  EXPECT_EQ(read.solver.max_batches, 10'000);
  EXPECT_EQ(read.designed_length, 10'000u);
  EXPECT_EQ(read.place_of("max_batches"), kCaffeNets + "lenet_solver.prototxt:12");
}

TEST(CaffeNet, cifar10_quick_has_caffes_shapes_and_parameters) {
  const TrainableNet read = shipped("cifar10_quick");
  const auto net = built(read);
  ASSERT_NE(net, nullptr);
  EXPECT_EQ(outputs(*net),
            (std::vector<std::string>{"convolutional 32x32x32", "maxpool 16x16x32",
                                      "activation 16x16x32", "convolutional 16x16x32",
                                      "avgpool 8x8x32", "convolutional 8x8x64", "avgpool 4x4x64",
                                      "connected 1x1x64", "connected 1x1x10", "softmax 1x1x10"}));
  EXPECT_EQ(net->parameter_count(), 145'578u);
  EXPECT_EQ(read.augment.byte_values->mean, (std::array{113.9f, 123.0f, 125.3f}));
  EXPECT_EQ(read.augment.byte_values->scale, 1);
  EXPECT_EQ(read.solver.policy, RatePolicy::constant);
}

TEST(CaffeNet, pools_round_up_as_caffes_do) {
  for (const char* method : {"MAX", "AVE"})
    for (int size = 1; size < 20; ++size)
      for (int kernel = 2; kernel < 5; ++kernel)
        for (int stride = 1; stride <= kernel; ++stride)
          for (int pad = 0; pad < kernel; ++pad) {
            // `wanted` is the size of the output as Caffe's pooling_layer.cpp computes it.
            int wanted =
                static_cast<int>(std::ceil(static_cast<double>(size + 2 * pad - kernel) / stride)) +
                1;
            if (pad > 0 && (wanted - 1) * stride >= size + pad) --wanted;
            const TrainableNet read = parsed(fmt::format(
                "input: 'data' input: 'label' input_shape {{ dim: 1 dim: 1 dim: {} dim: {} }}\n"
                "layer {{ name: 'it' type: 'Pooling' bottom: 'data' top: 'last' pooling_param {{\n"
                "  pool: {} kernel_size: {} stride: {} pad: {} }} }}\n{}",
                size, size, method, kernel, stride, pad, kCaffeLoss));
            const auto net = Net::build(read, {.training = true});
            ASSERT_EQ(net ? (*net)->layers()[0]->output().extent.h : 0, std::max(wanted, 0))
                << method << ' ' << size << ' ' << kernel << ' ' << stride << ' ' << pad;
          }
  EXPECT_TRUE(
      options_of<WindowOptions>(with_layer("type: 'Pooling' pooling_param { kernel_size: 2 }"))
          .counts_padding);
  EXPECT_FALSE(options_of<WindowOptions>(
                   with_layer("type: 'Pooling' pooling_param { kernel_size: 2 round_mode: FLOOR }"))
                   .rounds_up);
  EXPECT_TRUE(
      options_of<WindowOptions>(
          with_layer(
              "type: 'Pooling' pooling_param { pool: AVE global_pooling: true stride: 1 pad: 0 }"))
          .whole_image);
}

// A padding of one side alone also drops windows without a pixel along the other side, as in Caffe.
TEST(CaffeNet, oblong_pools_have_caffes_sizes) {
  const auto extent = [](const std::string& fields) {
    const auto net = built(with_layer("type: 'Pooling' pooling_param { " + fields + " }"));
    return net == nullptr ? Extent{} : net->layers()[0]->output().extent;
  };
  EXPECT_EQ(extent("kernel_h: 3 kernel_w: 5 stride_h: 2 stride_w: 3 pad_h: 1 pad_w: 2"),
            (Extent{9, 6, 3}));
  EXPECT_EQ(extent("kernel_h: 2 kernel_w: 2 stride_h: 7 stride_w: 1 pad_h: 0 pad_w: 1"),
            (Extent{3, 17, 3}));
  EXPECT_EQ(extent("kernel_h: 1 kernel_w: 2 stride_h: 6 stride_w: 1 pad_h: 0 pad_w: 1"),
            (Extent{3, 17, 3}))
      << "the fourth window would begin at row 18";
}

TEST(CaffeNet, layers_are_read_with_their_options) {
  const auto filters = options_of<FilterOptions>(with_layer(
      "type: 'Convolution' convolution_param { num_output: 6 kernel_h: 3 kernel_w: 5 stride_h: 2 "
      "stride_w: 1 pad_w: 2 dilation: 2 dilation: 1 group: 3 }"));
  EXPECT_EQ(filters.filters, 6);
  EXPECT_EQ(filters.size, (Sides{3, 5}));
  EXPECT_EQ(filters.stride, (Sides{2, 1}));
  EXPECT_EQ(filters.padding, (Sides{0, 2})) << "Caffe pads by 0 where it is not told";
  EXPECT_EQ(filters.dilation, (Sides{2, 1}));
  EXPECT_EQ(filters.groups, 3);
  const auto window =
      options_of<WindowOptions>(with_layer("type: 'Pooling' pooling_param { kernel_size: 4 "
                                           "stride_h: 2 stride_w: 3 pad_h: 1 pad_w: 2 }"));
  EXPECT_EQ(window.size, (Sides{4, 4}));
  EXPECT_EQ(window.stride, (Sides{2, 3}));
  EXPECT_EQ(window.padding, (Sides{2, 4})) << "of both sides together";
  const auto lrn = options_of<LocalResponseOptions>(
      with_layer("type: 'LRN' lrn_param { local_size: 5 alpha: 0.5 beta: 0.7 k: 2 }"));
  EXPECT_EQ(lrn.size, 5);
  EXPECT_FLOAT_EQ(lrn.alpha, 0.1f) << "alpha is of the whole window";
  EXPECT_EQ(lrn.beta, 0.7f);
  EXPECT_EQ(lrn.kappa, 2);
  EXPECT_EQ(options_of<DropoutOptions>(with_layer("type: 'Dropout'")).probability, 0.5f);
  struct {
    const char* type;
    Activation activation;
  } constexpr kActivations[] = {{"'ReLU'", Activation::relu},
                                {"'ReLU' relu_param { negative_slope: 0.1 }", Activation::leaky},
                                {"'Sigmoid'", Activation::logistic},
                                {"'TanH'", Activation::tanh},
                                {"'ELU'", Activation::elu}};
  for (const auto& each : kActivations)
    EXPECT_EQ(
        options_of<ActivationOptions>(with_layer(fmt::format("type: {}", each.type))).activation,
        each.activation)
        << each.type;
}

TEST(CaffeNet, blobs_have_names_and_may_be_replaced) {
  const TrainableNet net = parsed(
      std::string(kCaffeInput) +
      "layer { name: 'a' type: 'Convolution' bottom: 'data' top: 'a'\n"
      "  convolution_param { num_output: 3 kernel_size: 3 pad: 1 bias_term: false } }\n"
      "layer { name: 'ar' type: 'ReLU' bottom: 'a' top: 'a' }\n"
      "layer { name: 'sum' type: 'Eltwise' bottom: 'data' bottom: 'a' bottom: 'a' top: 'sum'\n"
      "  eltwise_param { coeff: 1 coeff: -1 coeff: 0.5 } }\n"
      "layer { name: 'sr' type: 'TanH' bottom: 'sum' top: 'sum' }\n"
      "layer { name: 'join' type: 'Concat' bottom: 'a' bottom: 'sum' top: 'join' }\n"
      "layer { name: 'flat' type: 'Flatten' bottom: 'join' top: 'flat' }\n"
      "layer { name: 'd' type: 'Dropout' bottom: 'flat' top: 'flat' }\n"
      "layer { name: 'fr' type: 'ReLU' bottom: 'flat' top: 'last' }\n" +
      kCaffeLoss);
  ASSERT_EQ(net.layers.size(), 9u);
  EXPECT_EQ(options_of<FilterOptions>(net, 0).activation, Activation::relu);
  EXPECT_EQ(net.layers[0].params.at(ParamRole::bias).rate, 0) << "none: it stays 0";
  EXPECT_EQ(options_of<SumOptions>(net, 1).beta, -1);
  EXPECT_EQ(options_of<SumOptions>(net, 2).alpha, 1);
  EXPECT_EQ(options_of<SumOptions>(net, 2).beta, 0.5f);
  EXPECT_EQ(options_of<SumOptions>(net, 2).activation, Activation::tanh);
  const auto made = built(net);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->layers()[3]->output().extent, (Extent{16, 16, 6}));
  EXPECT_EQ(made->layers()[2]->inputs()[0]->blob, &made->layers()[1]->output());
  EXPECT_EQ(made->classes(), 4);
}

TEST(CaffeNet, without_a_loss_it_only_predicts) {
  const TrainableNet net = parsed(
      "input: 'data' input_shape { dim: 1 dim: 12 }\n"
      "layer { name: 'i' type: 'InnerProduct' bottom: 'data' top: 'i'\n"
      "  inner_product_param { num_output: 4 } }\n"
      "layer { name: 'p' type: 'Softmax' bottom: 'i' top: 'p' }\n");
  EXPECT_TRUE(net.augment.flat);
  EXPECT_FALSE(options_of<SoftmaxOptions>(net, 1).loss);
  const auto made = Net::build(net, {.training = false});
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_FALSE(Net::build(net, {.training = true}));
}

TEST(CaffeNet, the_command_line_takes_the_place_of_values) {
  const std::string text =
      "layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 8 } }\n"
      "layer { name: 'c' type: 'ReLU' bottom: 'data' top: 'last' }\n" +
      std::string(kCaffeLoss);
  ReadOptions how;
  how.settings = {"height=9",    "width=7",       "channels=1",
                  "base_lr=0.5", "stepvalue=3,4", "lr_policy=multistep"};
  how.named.momentum = 0.25f;
  how.named.batch = 4;
  how.classes = 6;
  const TrainableNet net =
      parsed(text, "base_lr: 0.1 lr_policy: 'fixed' gamma: 0.1 momentum: 0.9 max_iter: 5", how);
  EXPECT_EQ(net.options.input, (Extent{9, 7, 1}));
  EXPECT_EQ(net.options.batch, 4);
  EXPECT_EQ(net.solver.learning_rate, 0.5f);
  EXPECT_EQ(net.solver.momentum, 0.25f);
  EXPECT_EQ(net.solver.policy, RatePolicy::steps);
  EXPECT_EQ(net.solver.steps, (std::vector{3, 4}));
  EXPECT_EQ(net.place_of("policy"), "command line");
  EXPECT_EQ(options_of<ConnectedOptions>(net, 1).outputs, 6);
}

TEST(CaffeNet, a_solver_names_its_net) {
  const auto found = net_of_caffe_solver(kCaffeNets + "lenet_solver.prototxt");
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(*found, kCaffeNets + "lenet_train_test.prototxt");
  const TemporaryDirectory folder;
  put(folder / "s.prototxt", "\nnet: 'none.prototxt'\n");
  const auto none = net_of_caffe_solver(folder / "s.prototxt");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().where, (folder / "s.prototxt").string() + ":2");
}

TEST(CaffeNet, fields_without_effect_are_named) {
  const log::Capture said;
  const std::string text = std::string(kCaffeInput) +
                           "layer { name: 'it' type: 'ReLU' bottom: 'data' top: 'last' "
                           "relu_param { engine: CAFFE } lrn_param { k: 2 } }\n" +
                           kCaffeLoss;
  ASSERT_TRUE(parse_caffe_net({text, "vain.prototxt"}));
  EXPECT_NE(said.text().find("vain.prototxt: without effect: engine (line 3: --impl prefers an "
                             "implementation)"),
            std::string::npos)
      << said.text();
  EXPECT_NE(
      said.text().find("vain.prototxt:3: layer 'it': lrn_param has no effect in a ReLU layer"),
      std::string::npos)
      << said.text();
}

// A prototxt file that is cut off or changed anywhere is either read or refused; the reader never
// crashes.
TEST(CaffeNet, no_prefix_of_a_file_crashes) {
  const log::Capture unsaid;
  for (const char* name : {"lenet", "cifar10_quick"}) {
    const std::string text = get(kCaffeNets + name + "_train_test.prototxt"),
                      solver = get(kCaffeNets + name + "_solver.prototxt");
    for (std::size_t length = 0; length < text.size(); ++length) {
      const std::string_view prefix = std::string_view(text).substr(0, length);
      const auto net = parse_caffe_net({prefix, "a"}, {solver, "s"});
      EXPECT_TRUE(net || net.error().kind == ErrorKind::usage) << length;
      if (net) (void)Net::build(*net, {.training = true});
    }
    for (std::size_t length = 0; length < solver.size(); ++length) {
      const auto net =
          parse_caffe_net({text, "a"}, {std::string_view(solver).substr(0, length), "s"});
      EXPECT_TRUE(net || net.error().kind == ErrorKind::usage) << length;
    }
    for (std::size_t at = 0; at < text.size(); at += 29)
      for (const char byte : {'{', '}', '"', '9', '-', '\0', '\xFF'}) {
        std::string other = text;
        other[at] = byte;
        const auto net = parse_caffe_net({other, "a"}, {solver, "s"});
        EXPECT_TRUE(net || net.error().kind == ErrorKind::usage) << at;
      }
  }
}

TEST(CaffeNet, what_is_deep_or_large_is_refused) {
  const auto refusal = [](const std::string& text) {
    const auto net = parse_caffe_net({text, "a"});
    EXPECT_FALSE(net);
    return net ? "" : net.error().message();
  };
  for (const char* open : {"a {", "layer { a {", "a: [", "a <"}) {
    std::string deep;
    while (deep.size() < 900'000) deep += open;
    EXPECT_NE(refusal(deep).find("in each other"), std::string::npos) << open;
  }
  EXPECT_NE(refusal(std::string(2'000'000, ' ')).find("larger than"), std::string::npos);
  std::string many;
  while (many.size() < 1'000'000) many += "layer { type: 'ReLU' }\n";
  EXPECT_NE(refusal(many).find("more than 10000 layers"), std::string::npos);
}

}  // namespace
}  // namespace omni::test
