// These tests check that parameters are copied from one net to another only if both nets compute
// the same function.
#include "layers/formats/darknet/darknet.hpp"
#include "layers/formats/same_net.hpp"
#include "runtime/tasks/host_access.hpp"
#include "tests/support/with_session.hpp"
#include "tests/unit/caffe/read_nets.hpp"

namespace omni::test {
namespace {

class CaffeConvert : public WithSession {
 protected:
  CaffeConvert() : WithSession(with_workers(1)) {}

  static std::unique_ptr<Net> made(const TrainableNet& described) {
    auto net = Net::build(described, {.training = false});
    EXPECT_TRUE(net) << net.error().message();
    EXPECT_TRUE((*net)->allocate());
    (*net)->initialise(1);
    return std::move(*net);
  }
  // Returns the error message of copying parameters from net `from` to net `to`, or "" if they are
  // copied.
  static std::string refusal(const TrainableNet& from, const TrainableNet& to) {
    const auto source = made(from), target = made(to);
    const Status status =
        copy_parameters({*source, from, "from"}, {*target, to, "to"}, MayLose::nothing);
    return status ? "" : status.error().message();
  }
  static void expect_refusal(const TrainableNet& from, const TrainableNet& to,
                             const std::string& what) {
    const std::string said = refusal(from, to);
    EXPECT_NE(said.find(what), std::string::npos) << "wanted: " << what << "\nsaid: " << said;
  }
  static std::string convolution(const std::string& name, const std::string& bottom) {
    return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" +
           name + "' convolution_param { num_output: 3 kernel_size: 1 } }\n";
  }
  // Returns a net of convolution 'a', convolution 'b', which reads `bottom`, and a last layer of
  // the fields `joins`.
  static TrainableNet joined(const std::string& bottom, const std::string& joins) {
    return parsed(kCaffeInput + convolution("a", "data") + convolution("b", bottom) +
                  "layer { name: 'j' top: 'last' " + joins + " }\n" + kCaffeLoss);
  }
};

TEST_F(CaffeConvert, layers_that_read_others_are_refused) {
  const std::string sum = "type: 'Eltwise' bottom: 'a' bottom: 'b'",
                    turned = "type: 'Eltwise' bottom: 'b' bottom: 'a'",
                    factors = " eltwise_param { coeff: 1 coeff: -1 }";
  expect_refusal(
      joined("data", sum), joined("a", sum),
      "layer 'b' reads a.prototxt:3: layer 'a', but a.prototxt:4: layer 'b' of a reads the image");
  expect_refusal(joined("data", "type: 'Concat' bottom: 'a' bottom: 'b'"),
                 joined("data", "type: 'Concat' bottom: 'b' bottom: 'a'"),
                 "reads a.prototxt:4: layer 'b' and a.prototxt:3: layer 'a', but");
  expect_refusal(joined("data", sum + factors), joined("data", turned + factors), "reads");
  expect_refusal(joined("data", sum + factors), joined("data", sum), "factors 1 -1");
  EXPECT_EQ(refusal(joined("data", sum), joined("data", turned)), "");  // has the same bits
}

TEST_F(CaffeConvert, normalisations_that_differ_are_refused) {
  const auto with = [](const std::string& fields) {
    return with_layer("type: 'BatchNorm' batch_norm_param { " + fields + " }");
  };
  EXPECT_EQ(refusal(with(""), with("eps: 1e-5")), "");
  expect_refusal(with(""), with("eps: 0.01"),
                 "it has norm epsilon 0.01 where a has norm epsilon 1e-05");
  expect_refusal(with("use_global_stats: true"), with(""),
                 "it has norm epsilon 1e-05 where a has norm epsilon 1e-05 frozen");
  expect_refusal(with_layer("type: 'LRN'"), with_layer("type: 'LRN' lrn_param { beta: 0.5 }"),
                 "beta 0.5");
}

TEST_F(CaffeConvert, layers_with_other_numbers_are_refused) {
  const auto conv = [](const char* fields) {
    return with_layer(std::string("type: 'Convolution' convolution_param { num_output: 3 ") +
                      fields + " }");
  };
  expect_refusal(conv("kernel_h: 3 kernel_w: 5"), conv("kernel_h: 5 kernel_w: 3"), "3 5x3/1");
  expect_refusal(conv("kernel_size: 5 pad_h: 1 pad_w: 2"), conv("kernel_size: 5 pad_h: 2 pad_w: 1"),
                 "pad 2x1");
  const auto pool = [](const char* fields) {
    return with_layer(std::string("type: 'Pooling' pooling_param { ") + fields + " }");
  };
  expect_refusal(pool("kernel_size: 3 stride: 3 pad_h: 0 pad_w: 1"),
                 pool("kernel_size: 3 stride: 3 pad_h: 1 pad_w: 0"), "pad 1x0");
  const auto power = [](const char* fields) {
    return with_layer(std::string("type: 'Power' power_param { ") + fields + " }");
  };
  EXPECT_EQ(refusal(power("scale: 0.5"), power("scale: 0.5 power: 1")), "");
  expect_refusal(power("scale: 0.5"), power("scale: 0.25"), "(0 + 0.25 x)^1");
  const auto slope = [](const char* fields) {
    return with_layer(std::string("type: 'ReLU' relu_param { negative_slope: ") + fields + " }");
  };
  EXPECT_EQ(refusal(slope("0.2"), slope("0.2")), "");
  expect_refusal(slope("0.2"), slope("0.3"), "slope 0.3");
  expect_refusal(with_layer("type: 'PReLU'"),
                 with_layer("type: 'PReLU' prelu_param { channel_shared: true }"), "one slope");
}

// The two nets compute the same function, but their layers have different numbers.
TEST_F(CaffeConvert, layers_may_count_differently) {
  const auto normalised = [](const std::string& name, const std::string& bottom) {
    return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" +
           name + "' convolution_param { num_output: 3 kernel_size: 1 bias_term: false } }\n" +
           "layer { name: 'n" + name + "' type: 'BatchNorm' bottom: '" + name + "' top: '" + name +
           "' }\nlayer { name: 's" + name + "' type: 'Scale' bottom: '" + name + "' top: '" + name +
           "' scale_param { bias_term: true } }\n";
  };
  const std::string relu = "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'a' }\n";
  const TrainableNet of_caffe = parsed(
      kCaffeInput + normalised("a", "data") + relu + normalised("b", "a") +
      "layer { name: 'j' top: 'last' type: 'Eltwise' bottom: 'b' bottom: 'a' }\n" + kCaffeLoss);
  const std::string convolution =
      "[convolutional]\nbatch_normalize=1\nfilters=3\nsize=1\nactivation=";
  const auto of_darknet = [&](const std::string& from) {
    auto net = parse_darknet_cfg(
        "[net]\nbatch=2\nheight=16\nwidth=16\nchannels=3\n" + convolution + "relu\n" + convolution +
            "linear\n[shortcut]\nfrom=" + from +
            "\nactivation=linear\n[connected]\noutput=4\nactivation=linear\n[softmax]\n",
        "n.cfg");
    EXPECT_TRUE(net) << net.error().message();
    net->augment = of_caffe.augment;
    return std::move(*net);
  };
  EXPECT_EQ(refusal(of_darknet("-2"), of_caffe), "");
  expect_refusal(of_caffe, of_darknet("-2"), "rolling_batches would be lost");  // is the same net
  expect_refusal(of_darknet("-1"), of_caffe, "reads");
}

// Layers without weights keep the order of colours, so it is the first weights that are reversed.
TEST_F(CaffeConvert, colours_are_swapped_behind_layers_without_weights) {
  const auto behind = [](const std::string& layer, bool blue_first) {
    TrainableNet net = parsed(kCaffeInput + ("layer { name: 'x' top: 'x' bottom: 'data' " + layer) +
                              " }\n" + convolution("last", "x") + kCaffeLoss);
    net.augment.byte_values = ByteValues{.blue_first = blue_first};
    return net;
  };
  const auto first_values = [](Net& net) {
    for (const Param* param : net.params())
      if (param->role == ParamRole::weights && param->shape.size() == 4) {
        const HostAccess read(*param->master, HostAccess::Mode::read);
        return std::vector<float>(read.f32().begin(), read.f32().begin() + 3);
      }
    return std::vector<float>();
  };
  for (const char* layer :
       {"type: 'Pooling' pooling_param { kernel_size: 2 }", "type: 'ReLU'", "type: 'Dropout'",
        "type: 'Pooling' pooling_param { pool: AVE kernel_size: 2 }", "type: 'Power'",
        "bottom: 'data' type: 'Eltwise'", "type: 'Split'"}) {
    SCOPED_TRACE(layer);
    const TrainableNet from = behind(layer, true), to = behind(layer, false);
    const auto source = made(from), target = made(to);
    const float values[] = {1, 2, 3};
    for (const Param* param : source->params())
      if (param->role == ParamRole::weights && param->shape.size() == 4) {
        const HostAccess write(*param->master, HostAccess::Mode::write);
        std::ranges::copy(values, write.f32().begin());
      }
    const Status copied =
        copy_parameters({*source, from, "from"}, {*target, to, "to"}, MayLose::nothing);
    ASSERT_TRUE(copied) << copied.error().message();
    EXPECT_EQ(first_values(*target), (std::vector<float>{3, 2, 1}));
  }
  for (const char* layer : {"type: 'LRN'", "bottom: 'data' type: 'Concat'", "type: 'Scale'",
                            "type: 'Bias'", "type: 'BatchNorm'"}) {
    SCOPED_TRACE(layer);
    EXPECT_EQ(refusal(behind(layer, true), behind(layer, true)), "");
    expect_refusal(behind(layer, true), behind(layer, false), "colours in another order");
  }
}

// Vectors stay as they are, so their nets are the same. The values of images are not.
TEST_F(CaffeConvert, vectors_are_the_same_where_images_are_not) {
  const auto said_of = [](const std::string& transform) {
    const auto flat = [](const std::string& more) {
      return parsed(
          "layer { name: 'd' type: 'MemoryData' top: 'data' top: 'label'\n"
          "  memory_data_param { batch_size: 2 channels: 12 height: 1 width: 1 } " +
          more + " }\nlayer { name: 'r' type: 'ReLU' bottom: 'data' top: 'last' }\n" + kCaffeLoss);
    };
    const TrainableNet from = flat(""), to = flat(transform);
    const log::Capture said;
    EXPECT_EQ(refusal(from, to), "");
    return said.text();
  };
  EXPECT_EQ(said_of(""), "");
  EXPECT_NE(said_of("transform_param { scale: 0.5 }")
                .find("to: vectors are the same for a, but images are not: (pixel - 0) * 0.5, blue "
                      "first here, (pixel - 0) * 1, blue first there"),
            std::string::npos)
      << said_of("transform_param { scale: 0.5 }");
}

TEST_F(CaffeConvert, means_of_images_are_compared_by_their_values) {
  const auto with_mean = [](float value) {
    TrainableNet net = with_layer("type: 'ReLU'");
    net.augment.mean_image = std::make_shared<const MeanImage>(
        MeanImage{.extent = {16, 16, 3}, .values = std::vector<float>(768, value)});
    return net;
  };
  EXPECT_TRUE(with_mean(2).augment == with_mean(2).augment);
  EXPECT_FALSE(with_mean(2).augment == with_mean(3).augment);
  EXPECT_FALSE(with_mean(2).augment == AugmentOptions());
  EXPECT_EQ(refusal(with_mean(2), with_mean(2)), "");
  expect_refusal(with_mean(2), with_mean(3), "the mean of its images is another than that of a");
  expect_refusal(with_mean(2), with_layer("type: 'ReLU'"), "the mean of its images is another");
}

}  // namespace
}  // namespace omni::test
