// These tests convert parameters between formats. They come back with the same bits, and a net has
// the same outputs in Darknet's and in Caffe's form.
#include <gtest/gtest.h>

#include "runtime/rng.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;

const std::string kOfCaffe = OMNI_SOURCE_DIR "/tests/e2e/caffe_oracle/";

class Convert : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }
  Finished run(const Words& words) const {
    Finished finished = omni_run(words);
    EXPECT_EQ(finished.exit_code, 0) << finished.errors;
    return finished;
  }
  void convert(const std::string& from, const std::string& to, const std::string& net,
               const Words& more = {}) const {
    Words words{"convert", from, to, "--net", net};
    words.insert(words.end(), more.begin(), more.end());
    run(words);
  }
  double loss(const std::string& net, const std::string& weights, const std::string& data) const {
    const Finished tested =
        run({"valid", "--net", at(net), "--weights", at(weights), "--data", data, "--json"});
    return nlohmann::json::parse(tested.output)["test_loss"].get<double>();
  }
  // Writes six colour images of three classes, and a list of them.
  void put_images() const {
    std::string list;
    for (int number = 0; number < 6; ++number) {
      Draws draws(Philox(11, RandomStream::synthetic), static_cast<std::uint64_t>(number));
      std::string pixels;
      for (int i = 0; i < 3 * 64; ++i) pixels += static_cast<char>(draws.below(256));
      put(at(std::to_string(number) + ".ppm"), "P6 8 8 255\n" + pixels);
      list += at(std::to_string(number) + ".ppm") + " " + std::to_string(number % 3) + "\n";
    }
    put(at("list.txt"), list);
  }
  TemporaryDirectory folder_;
};

TEST_F(Convert, there_and_back_keeps_the_bits) {
  put(at("n.prototxt"),
      "input: 'data' input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }\n"
      "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'c' convolution_param {\n"
      "  num_output: 4 kernel_size: 3 pad: 1 } }\n"
      "layer { name: 'ip1' type: 'InnerProduct' bottom: 'c' top: 's' inner_product_param {\n"
      "  num_output: 4 } }\n"
      "layer { name: 'p' type: 'Softmax' bottom: 's' top: 'p' }\n");
  convert(kOfCaffe + "stored.caffemodel", at("a.caffemodel"), at("n.prototxt"));
  for (const std::string by : {"b.safetensors", "b.weights"}) {
    SCOPED_TRACE(by);
    convert(at("a.caffemodel"), at(by), at("n.prototxt"));
    convert(at(by), at("c.caffemodel"), at("n.prototxt"));
    EXPECT_TRUE(get(at("a.caffemodel")) == get(at("c.caffemodel")));
    std::filesystem::remove(at("c.caffemodel"));
  }
}

// The net has batch normalisation with running averages and scale factors.
TEST_F(Convert, batch_normalisation_keeps_its_averages) {
  const std::string net = kOfCaffe + "scaled.prototxt";
  convert(kOfCaffe + "scaled.caffemodel", at("a.safetensors"), net);
  convert(at("a.safetensors"), at("b.caffemodel"), net);
  convert(at("b.caffemodel"), at("c.safetensors"), net);
  convert(at("c.safetensors"), at("d.caffemodel"), net);
  EXPECT_TRUE(get(at("b.caffemodel")) == get(at("d.caffemodel")));
}

// Darknet's images have red first and values from 0 to 1, Caffe's have blue first.
TEST_F(Convert, a_net_has_the_same_outputs_in_both_forms) {
  put_images();
  put(at("n.cfg"),
      "[net]\nbatch=3\nheight=8\nwidth=8\nchannels=3\nlearning_rate=0.1\n"
      "[convolutional]\nfilters=5\nsize=3\npad=1\nactivation=relu\n[connected]\noutput=3\n"
      "activation=linear\n[softmax]\n");
  put(at("n.prototxt"),
      "layer { name: 'data' type: 'Data' top: 'data' top: 'label'\n"
      "  transform_param { crop_size: 8 scale: 0.003921568859368563 } data_param { batch_size: 3 } "
      "}\n"
      "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' convolution_param {\n"
      "  num_output: 5 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }\n"
      "layer { name: 's' type: 'InnerProduct' bottom: 'c' top: 's' inner_product_param {\n"
      "  num_output: 3 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label' }\n");
  const std::string data = at("list.txt") + "," + at("list.txt");
  run({"--net", at("n.cfg"), "--data", data, "--max-batches", "4", "--out", at("run"),
       "--save-weights", at("a.weights"), "-q"});
  convert(at("a.weights"), at("b.caffemodel"), at("n.cfg"), {"--as", at("n.prototxt")});
  convert(at("b.caffemodel"), at("c.weights"), at("n.prototxt"), {"--as", at("n.cfg")});
  EXPECT_TRUE(get(at("a.weights")).substr(20) == get(at("c.weights")).substr(20));
  std::string other = get(at("n.cfg"));
  put(at("other.cfg"), other.replace(other.find("relu"), 4, "tanh"));
  const Finished refused = omni_run({"convert", at("b.caffemodel"), at("d.weights"), "--net",
                                     at("n.prototxt"), "--as", at("other.cfg")});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.errors.find("it has tanh where n has relu"), std::string::npos)
      << refused.errors;
  EXPECT_FALSE(std::filesystem::exists(at("d.weights")));
  EXPECT_NEAR(loss("n.cfg", "a.weights", data), loss("n.prototxt", "b.caffemodel", data), 1e-5);
}

// Darknet's convolution with batch normalisation is three layers in Caffe. Converting back would
// lose the number of averaged mini-batches, so it is not tested.
TEST_F(Convert, batch_normalisation_is_the_same_in_both_forms) {
  put_images();
  put(at("n.cfg"),
      "[net]\nbatch=3\nheight=8\nwidth=8\nchannels=3\nlearning_rate=0.1\n"
      "[convolutional]\nbatch_normalize=1\nfilters=5\nsize=3\npad=1\nactivation=relu\n"
      "[connected]\noutput=3\nactivation=linear\n[softmax]\n");
  put(at("n.prototxt"),
      "layer { name: 'data' type: 'Data' top: 'data' top: 'label'\n"
      "  transform_param { crop_size: 8 scale: 0.003921568859368563 } data_param { batch_size: 3 } "
      "}\n"
      "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' convolution_param {\n"
      "  num_output: 5 kernel_size: 3 pad: 1 bias_term: false } }\n"
      "layer { name: 'b' type: 'BatchNorm' bottom: 'c' top: 'c' }\n"
      "layer { name: 'f' type: 'Scale' bottom: 'c' top: 'c' scale_param { bias_term: true } }\n"
      "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }\n"
      "layer { name: 's' type: 'InnerProduct' bottom: 'c' top: 's' inner_product_param {\n"
      "  num_output: 3 } }\n"
      "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label' }\n");
  const std::string data = at("list.txt") + "," + at("list.txt");
  run({"--net", at("n.cfg"), "--data", data, "--max-batches", "4", "--out", at("run"),
       "--save-weights", at("a.weights"), "-q"});
  convert(at("a.weights"), at("b.caffemodel"), at("n.cfg"), {"--as", at("n.prototxt")});
  EXPECT_NEAR(loss("n.cfg", "a.weights", data), loss("n.prototxt", "b.caffemodel", data), 1e-5);
  const Finished refused = omni_run({"convert", at("b.caffemodel"), at("c.weights"), "--net",
                                     at("n.prototxt"), "--as", at("n.cfg")});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.errors.find("rolling_batches would be lost"), std::string::npos)
      << refused.errors;
}

// The softmax reads several pixels, whose values both forms count channel by channel.
TEST_F(Convert, a_softmax_of_pixels_is_the_same_in_both_forms) {
  put_images();
  put(at("n.cfg"),
      "[net]\nbatch=3\nheight=8\nwidth=8\nchannels=3\nlearning_rate=0.05\n"
      "[convolutional]\nfilters=2\nsize=4\nstride=4\nactivation=linear\n[softmax]\n");
  const std::string data = at("list.txt") + "," + at("list.txt");
  run({"--net", at("n.cfg"), "--data", data, "--max-batches", "6", "--out", at("run"),
       "--save-weights", at("a.weights"), "-q"});
  run({"convert", at("n.cfg"), at("n.prototxt")});
  convert(at("a.weights"), at("b.caffemodel"), at("n.cfg"), {"--as", at("n.prototxt")});
  EXPECT_NEAR(loss("n.cfg", "a.weights", data), loss("n.prototxt", "b.caffemodel", data), 1e-5);
}

// Nets that omni-run converts to the other form, weights that it converts, and back.
class ConvertNets : public Convert, public testing::WithParamInterface<const char*> {
 protected:
  std::string shipped() const { return OMNI_SOURCE_DIR "/apps/nets/" + std::string(GetParam()); }
  // Trains no iteration, and saves the net's initial parameters.
  void save_initial(const std::string& net, const std::string& file, const Words& more = {}) const {
    Words words{"--net",
                net,
                "--data",
                "synthetic:64:10",
                "--max-batches",
                "1",
                "--learning-rate",
                "0",
                "--batch",
                "1",
                "--subdivisions",
                "1",
                "--out",
                at("run"),
                "--save-weights",
                file,
                "-q"};
    words.insert(words.end(), more.begin(), more.end());
    run(words);
  }
};

class ConvertCfgNets : public ConvertNets {};
class ConvertCaffeNets : public ConvertNets {};

// The images are colours in the other order, or vectors.
TEST_P(ConvertCfgNets, there_and_back) {
  save_initial(shipped(), at("a.weights"));
  run({"convert", shipped(), at("n.prototxt"), "--for-tests"});
  convert(at("a.weights"), at("b.caffemodel"), shipped(), {"--as", at("n.prototxt")});
  run({"convert", at("n.prototxt"), at("back.cfg"), "--for-tests"});
  convert(at("b.caffemodel"), at("c.weights"), at("n.prototxt"),
          {"--as", at("back.cfg"), "--for-tests"});
  EXPECT_TRUE(get(at("a.weights")).substr(20) == get(at("c.weights")).substr(20));
  const auto loss_of = [&](const std::string& net, const std::string& weights) {
    const Finished tested = run(
        {"valid", "--net", net, "--weights", at(weights), "--data", "synthetic:8:10", "--json"});
    return nlohmann::json::parse(tested.output)["test_loss"].get<double>();
  };
  const double loss = loss_of(shipped(), "a.weights");
  EXPECT_NEAR(loss_of(at("n.prototxt"), "b.caffemodel"), loss, 1e-4 * loss);
  EXPECT_NEAR(loss_of(at("back.cfg"), "c.weights"), loss, 1e-4 * loss);
}

// The text that is written describes the same net, and a second conversion writes the same text.
TEST_P(ConvertCaffeNets, are_written_without_loss) {
  run({"convert", shipped(), at("a.prototxt")});
  run({"convert", at("a.prototxt"), at("b.prototxt")});
  const auto layers = [&](const char* file) {  // without the net's name
    const std::string text = get(at(file));
    return text.substr(text.find('\n'));
  };
  EXPECT_EQ(layers("a.prototxt"), layers("b.prototxt"));
  const Finished refused = omni_run({"convert", shipped(), at("x.cfg")});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(at("x.cfg")));
}

std::string name_of_net(const testing::TestParamInfo<const char*>& net) {
  std::string name = std::filesystem::path(net.param).stem();
  std::ranges::replace(name, '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(, ConvertCfgNets,
                         testing::Values("lenet.cfg", "cifar10-quick.cfg", "mlp.cfg",
                                         "resnet-18-32.cfg", "small-photos.cfg"),
                         name_of_net);
INSTANTIATE_TEST_SUITE_P(
    , ConvertCaffeNets,
    testing::Values("caffe/lenet_train_test.prototxt", "caffe/cifar10_quick_train_test.prototxt",
                    "caffe/cifar10_full_train_test.prototxt", "caffe/caffenet_train_test.prototxt",
                    "caffe/alexnet_train_test.prototxt", "caffe/googlenet_train_test.prototxt"),
    name_of_net);

TEST_F(Convert, what_a_net_would_lose_is_named) {
  const auto refusal = [&](const std::string& net, const std::string& to, const std::string& what) {
    const Finished refused = omni_run({"convert", at(net), at(to)});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.errors.find(what), std::string::npos) << refused.errors;
    EXPECT_FALSE(std::filesystem::exists(at(to)));
  };
  const std::string head = "[net]\nbatch=2\nheight=8\nwidth=8\nchannels=3\n",
                    tail = "[connected]\noutput=3\nactivation=linear\n[softmax]\n";
  const auto cfg = [&](const std::string& net, const std::string& middle, const std::string& what) {
    put(at("n.cfg"), head + net + middle + tail);
    refusal("n.cfg", "x.prototxt", what);
  };
  cfg("", "[local]\nfilters=2\nsize=3\n", "n.cfg:6: [local] (Caffe has no such layer)");
  cfg("", "[convolutional]\nsize=3\nactivation=mish\n", "n.cfg:6: activation mish");
  cfg("", "[maxpool]\nsize=3\nstride=1\npadding=3\n", "n.cfg:6: windows with a padding of 3x3");
  cfg("", "[normalization]\nsize=4\n", "n.cfg:6: size 4 (Caffe's are odd)");
  cfg("angle=7\n", "", "this would be lost: angle 7");
  cfg("", "[connected]\noutput=3\nbatch_normalize=1\n", "averages with 0.99");
  cfg("label_smooth_eps=0.1\n", "", "label_smooth_eps 0.1");
  cfg("", "[connected]\noutput=3\nstopbackward=1\n", "stops backward");
  const auto caffe = [&](const std::string& layer, const std::string& what) {
    put(at("n.prototxt"),
        "layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 2 }\n"
        "transform_param { crop_size: 8 scale: 0.00392156886 } }\n" +
            layer +
            "layer { name: 's' type: 'InnerProduct' bottom: 'x' top: 's' inner_product_param {\n"
            "num_output: 3 } }\n"
            "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label' }\n");
    refusal("n.prototxt", "x.cfg", what);
  };
  caffe(
      "layer { name: 'x' type: 'Convolution' bottom: 'data' top: 'x' convolution_param {\n"
      "num_output: 3 kernel_h: 1 kernel_w: 3 } }\n",
      "are no squares (a .cfg has none)");
  caffe("layer { name: 'x' type: 'ReLU' bottom: 'data' top: 'x' }\n",
        "this would be lost: the names of layers; initial values of");
  caffe("layer { name: 'x' type: 'Power' bottom: 'data' top: 'x' }\n",
        "a layer of type power (a .cfg has no such layer)");
  put(at("n.cfg"), head + tail);
  put(at("there.prototxt"), "x");
  const Finished there = omni_run({"convert", at("n.cfg"), at("there.prototxt")});
  EXPECT_EQ(there.exit_code, 2);
  EXPECT_NE(there.errors.find("nets are not replaced"), std::string::npos)
      << there.errors;
  EXPECT_EQ(get(at("there.prototxt")), "x");
}

}  // namespace
}  // namespace omni::test
