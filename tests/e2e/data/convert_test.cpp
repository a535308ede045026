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

}  // namespace
}  // namespace omni::test
