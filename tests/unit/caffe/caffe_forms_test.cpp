// These tests read the old form of Caffe's layers (`layers { type: CONVOLUTION }`), and nets with
// layers for one phase only.
#include <fmt/ranges.h>

#include <map>

#include "codelets/elementwise/activation_functors.hpp"
#include "layers/formats/caffe/caffe_layers.hpp"
#include "tests/unit/caffe/read_nets.hpp"

namespace omni::test {
namespace {

TEST(CaffeNet, the_old_form_is_the_same_net) {
  const TrainableNet old = parsed(
      "name: 'old' input: 'data' input: 'label'\n"
      "input_dim: 2 input_dim: 3 input_dim: 16 input_dim: 16\n"
      "input_dim: 2 input_dim: 1 input_dim: 1 input_dim: 1\n"
      "layers { name: 'c' type: CONVOLUTION bottom: 'data' top: 'last' blobs_lr: 1 blobs_lr: 2\n"
      "  weight_decay: 1 weight_decay: 0 convolution_param { num_output: 5 kernel_size: 3 } }\n"
      "layers { name: 'r' type: RELU bottom: 'last' top: 'last' }\n"
      "layers { name: 'i' type: INNER_PRODUCT bottom: 'last' top: 'scores'\n"
      "  inner_product_param { num_output: 4 } }\n"
      "layers { name: 'l' type: SOFTMAX_LOSS bottom: 'scores' bottom: 'label' }\n"
      "layers { name: 'a' type: ACCURACY bottom: 'scores' bottom: 'label' top: 'a'\n"
      "  include: { phase: TEST } }\n");
  EXPECT_EQ(old.options.input, (Extent{16, 16, 3}));
  EXPECT_EQ(old.options.batch, 2);
  const auto& params = old.layers.at(0).params;
  EXPECT_EQ(params.at(ParamRole::bias).rate, 2);
  EXPECT_EQ(params.at(ParamRole::bias).decay, 0);
  EXPECT_EQ(params.at(ParamRole::weights).decay, 1);
  EXPECT_EQ(options_of<FilterOptions>(old).activation, Activation::relu);
  const auto net = built(old);
  ASSERT_NE(net, nullptr);
  EXPECT_EQ(outputs(*net), (std::vector<std::string>{"convolutional 14x14x5", "connected 1x1x4",
                                                     "softmax 1x1x4"}));
}

TEST(CaffeNet, how_shapes_of_shared_parameters_are_compared_has_no_effect) {
  with_layer(
      "type: 'InnerProduct' inner_product_param { num_output: 2 } "
      "param { share_mode: STRICT } param { share_mode: PERMISSIVE }");
  parsed(
      "input: 'data' input_shape { dim: 1 dim: 12 }\n"
      "layers { name: 'i' type: INNER_PRODUCT bottom: 'data' top: 'i' blob_share_mode: STRICT\n"
      "  inner_product_param { num_output: 4 } }\n");
}

// The map holds the fields without which a layer of an old type is refused.
TEST(CaffeNet, every_type_is_read_in_its_old_form) {
  const std::map<std::string_view, std::string> kNeeds{
      {"CONVOLUTION", "convolution_param { num_output: 2 kernel_size: 3 }"},
      {"DECONVOLUTION", "convolution_param { num_output: 2 kernel_size: 3 }"},
      {"INNER_PRODUCT", "inner_product_param { num_output: 2 }"},
      {"POOLING", "pooling_param { kernel_size: 2 }"},
      {"DATA", "data_param { batch_size: 2 } transform_param { crop_size: 8 }"},
      {"IMAGE_DATA", "image_data_param { batch_size: 2 } transform_param { crop_size: 8 }"},
      {"HDF5_DATA", "hdf5_data_param { batch_size: 2 }"},
      {"MEMORY_DATA", "memory_data_param { batch_size: 2 channels: 3 height: 8 width: 8 }"},
      {"DUMMY_DATA", "dummy_data_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } }"}};
  int types = 0;
  for (const CaffeType& type : caffe_types()) {
    if (type.old_name.empty()) continue;
    SCOPED_TRACE(type.name);
    ++types;
    const auto needed = kNeeds.find(type.old_name);
    const std::string needs = needed == kNeeds.end() ? "" : needed->second;
    const bool is_data = type.kind == CaffeType::Kind::data,
               is_layer = type.kind == CaffeType::Kind::layer;
    std::string blobs = is_data ? "top: 'data' top: 'label'" : "bottom: 'data'";
    if (type.bottoms == 2) blobs += is_layer ? " bottom: 'data'" : " bottom: 'label'";
    if (is_layer) blobs += " top: 'it'";
    const std::string it =
        fmt::format("layers {{ name: 'it' type: {} {} {} }}\n", type.old_name, blobs, needs);
    const std::string data =
        "layers { name: 'd' type: DUMMY_DATA top: 'data' top: 'label'\n"
        "  dummy_data_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }\n";
    const std::string rest = "layers { name: 'r' type: RELU bottom: 'data' top: 'r' }\n";
    ReadOptions how;
    how.settings = {"height=8", "width=8"};
    const TrainableNet net = parsed((is_data ? it : data + it) + rest, "", how);
    EXPECT_EQ(net.layers.size(), type.kind == CaffeType::Kind::loss || is_layer ? 2u : 1u);
  }
  EXPECT_GE(types, 18);
}

TEST(CaffeNet, training_is_the_phase_that_is_read) {
  const TrainableNet net = parsed(
      "layer { name: 'd' type: 'MemoryData' top: 'data' top: 'label' include { phase: TRAIN }\n"
      "  memory_data_param { batch_size: 7 channels: 1 height: 9 width: 8 }\n"
      "  transform_param { mirror: true scale: 2 mean_value: 100 crop_size: 6 } }\n"
      "layer { name: 'd' type: 'MemoryData' top: 'data' top: 'label' exclude { phase: TRAIN }\n"
      "  memory_data_param { batch_size: 5 channels: 1 height: 9 width: 8 }\n"
      "  transform_param { scale: 2 mean_value: 100 crop_size: 6 } }\n"
      "layer { name: 'p' type: 'Dropout' bottom: 'data' top: 'last' include { phase: TRAIN } }\n" +
      std::string(kCaffeLoss) +
      "layer { name: 'p' type: 'Softmax' bottom: 'scores' top: 'p' include { phase: TEST } }\n");
  EXPECT_EQ(net.options.batch, 7);
  EXPECT_EQ(net.options.input, (Extent{6, 6, 1}));
  EXPECT_TRUE(net.augment.flip);
  EXPECT_TRUE(net.augment.own_size) << "crop_size never resizes";
  EXPECT_EQ(net.augment.byte_values,
            (ByteValues{.mean = {100, 100, 100}, .scale = 2, .blue_first = true}));
  EXPECT_EQ(net.layers.size(), 3u);
}

TEST(CaffeNet, who_measures_another_blob_than_the_output_is_told) {
  const auto remarks = [](const std::string& blob) {
    const TrainableNet net = parsed(
        std::string(kCaffeInput) + "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'last' }\n" +
        kCaffeLoss +
        "layer { name: 'p' type: 'Softmax' bottom: 'scores' top: 'p' include { phase: TEST } }\n"
        "layer { name: 'a' type: 'Accuracy' bottom: '" +
        blob + "' bottom: 'label' top: 'a' include { phase: TEST } }\n" +
        "layer { name: 'q' type: 'Silence' bottom: 'a' }\n");
    return fmt::format("{}", fmt::join(net.layers.front().remarks, "; "));
  };
  EXPECT_EQ(remarks("scores").find("'a'"), std::string::npos);
  EXPECT_EQ(remarks("p").find("'a'"), std::string::npos) << "its Softmax";
  EXPECT_NE(remarks("last").find("a.prototxt:8: layer 'a': reads 'last', but what is right is "
                                 "counted of 'scores', the net's output"),
            std::string::npos)
      << remarks("last");
}

// Returns a net of the losses 'main', which reads 'x', and 'aux', which reads 'y'. Both have fields
// of their phases; `more` are further layers.
std::string with_two_losses(const std::string& of_main, const std::string& of_aux,
                            const std::string& more) {
  const auto scores = [](const std::string& name) {
    return "layer { name: '" + name + "' type: 'InnerProduct' bottom: 'data' top: '" + name +
           "'\n  inner_product_param { num_output: 4 } }\n";
  };
  return kCaffeInput + scores("x") + scores("y") +
         "layer { name: 'main' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'label' " + of_main +
         " }\nlayer { name: 'aux' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label'\n"
         "  loss_weight: 0.3 " +
         of_aux + " }\n" + more;
}

TEST(CaffeNet, the_own_loss_is_the_last_of_tests) {
  const std::string train = "include { phase: TRAIN }", of_test = " include { phase: TEST } }\n",
                    of_x = "layer { name: 'p' type: 'Softmax' bottom: 'x' top: 'p'" + of_test;
  const TrainableNet net = parsed(with_two_losses("", train, of_x));
  ASSERT_EQ(net.layers.size(), 4u);
  EXPECT_EQ(net.layers[2].name, "aux");
  EXPECT_TRUE(net.layers[2].auxiliary);
  EXPECT_EQ(net.layers[2].loss_weight, 0.3f);
  EXPECT_EQ(net.layers[3].name, "main");
  EXPECT_FALSE(net.layers[3].auxiliary);
  EXPECT_NE(built(net), nullptr);
  EXPECT_EQ(parsed(with_two_losses("", "", "")).layers.back().name, "aux");
  EXPECT_EQ(parsed(with_two_losses(train, train, "")).layers.back().name, "aux");
  EXPECT_EQ(parsed(with_two_losses(train, "", "")).layers.back().name, "aux");
  const std::string of_accuracy =
      "layer { name: 'p' type: 'Accuracy' bottom: 'x' bottom: 'label' top: 'p'" + of_test;
  for (const std::string& test : {of_x, of_accuracy}) {
    const auto refused = parse_caffe_net({with_two_losses(train, train, test), "a.prototxt"}, {});
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message().find("'p': reads 'x', but the last loss reads 'y'"),
              std::string::npos)
        << refused.error().message();
  }
}

TEST(CaffeNet, layers_in_no_phase_are_not_judged) {
  const TrainableNet net = parsed(
      kCaffeInput + std::string("layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'last' }\n") +
      kCaffeLoss +
      "layer { name: 'b' type: 'LSTM' bottom: 'no' top: 'b' include { stage: 'deploy' } }\n"
      "layer { name: 'p' type: 'Convolution' bottom: 'no' top: 'p' include { stage: 'x' } }\n");
  EXPECT_EQ(net.layers.size(), 3u);
}

}  // namespace
}  // namespace omni::test
