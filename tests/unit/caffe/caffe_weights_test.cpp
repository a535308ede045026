// These tests read and write parameters in Caffe's files. Layers are found by name, shapes have to
// fit, and every form that Caffe wrote is read.
#include <array>
#include <bit>

#include "layers/formats/darknet/darknet.hpp"
#include "layers/formats/parameters.hpp"
#include "runtime/tasks/host_access.hpp"
#include "tests/support/caffe/caffe_messages.hpp"
#include "tests/support/with_session.hpp"
#include "tests/unit/caffe/read_nets.hpp"

namespace omni::test {
namespace {

using Files = std::vector<std::filesystem::path>;

class CaffeWeights : public WithSession {
 protected:
  CaffeWeights() : WithSession(with_workers(1)) {}

  // Returns a net of a convolution, a batch normalisation with scales, and an inner product, whose
  // name is `last`.
  std::unique_ptr<Net> net(std::uint64_t seed, int outputs = 4, const char* last = "scores") const {
    std::string text = std::string(kCaffeInput) +
                       "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c'\n"
                       "  convolution_param { num_output: 2 kernel_size: 15 bias_term: false\n"
                       "    weight_filler { type: 'xavier' } } }\n"
                       "layer { name: 'b' type: 'BatchNorm' bottom: 'c' top: 'c' }\n"
                       "layer { name: 's' type: 'Scale' bottom: 'c' top: 'c'\n"
                       "  scale_param { bias_term: true filler { type: 'gaussian' } } }\n"
                       "layer { name: '" +
                       std::string(last) +
                       "' type: 'InnerProduct' bottom: 'c' top: 'scores' inner_product_param {\n"
                       "  num_output: " +
                       std::to_string(outputs) +
                       " weight_filler { type: 'xavier' } bias_filler { type: 'gaussian' } } }\n"
                       "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: "
                       "'label' }\n";
    auto made = Net::build(parsed(text), {.training = false});
    EXPECT_TRUE(made) << made.error().message();
    EXPECT_TRUE((*made)->allocate());
    (*made)->initialise(seed);
    return std::move(*made);
  }
  static std::vector<float> values(Net& net, std::string_view ending) {
    for (const Param* param : net.params())
      if (param->name.ends_with(ending)) {
        const HostAccess access(*param->master, HostAccess::Mode::read);
        return {access.f32().begin(), access.f32().end()};
      }
    ADD_FAILURE() << "no parameter " << ending;
    return {};
  }
  static void set(Net& net, std::string_view ending, float value) {
    for (const Param* param : net.params())
      if (param->name.ends_with(ending))
        std::ranges::fill(HostAccess(*param->master, HostAccess::Mode::write).f32(), value);
  }
  std::string refusal(Net& net, const std::string& bytes) const {
    put(folder_ / "x.caffemodel", bytes);
    const log::Capture unsaid;
    const Status status = load_caffe_weights(net, Files{folder_ / "x.caffemodel"});
    return status ? "" : status.error().message();
  }
};

TEST_F(CaffeWeights, come_back_bit_by_bit) {
  const auto saved = net(1), loaded = net(2);
  set(*saved, "rolling_batches", 4);  // a power of two: quotients are exact
  ASSERT_TRUE(save_caffe_weights(*saved, folder_ / "x.caffemodel"));
  EXPECT_NE(values(*saved, "weights"), values(*loaded, "weights"));
  ASSERT_TRUE(load_caffe_weights(*loaded, Files{folder_ / "x.caffemodel"}));
  for (const Param* param : saved->params())
    if (param->in_files) {
      EXPECT_EQ(values(*saved, param->name), values(*loaded, param->name));
    }
  ASSERT_TRUE(save_caffe_weights(*loaded, folder_ / "y.caffemodel"));
  EXPECT_TRUE(get(folder_ / "x.caffemodel") == get(folder_ / "y.caffemodel"));
}

// Caffe's file holds sums over mini-batches and the factor to divide them by. A factor of 0 means
// that the averages are 0.
TEST_F(CaffeWeights, averages_are_sums_divided_by_the_factor) {
  const auto of = net(1);
  for (const float factor : {4.0f, 0.0f}) {
    put(folder_ / "x.caffemodel",
        caffe_layer_bytes(
            "b", {caffe_blob({2}, {8, -2}), caffe_blob({2}, {6, 1}), caffe_blob({1}, {factor})}));
    const log::Capture unsaid;
    ASSERT_TRUE(load_caffe_weights(*of, Files{folder_ / "x.caffemodel"}));
    using Values = std::vector<float>;
    EXPECT_EQ(values(*of, "rolling_mean"), factor == 0 ? Values({0, -0.0f}) : Values({2, -0.5f}));
    EXPECT_EQ(values(*of, "rolling_variance"),
              factor == 0 ? Values({0, 0}) : Values({1.5f, 0.25f}));
    EXPECT_EQ(values(*of, "rolling_batches"), Values({factor, factor}));
  }
}

// A new net counts 0 mini-batches, and Darknet's .weights files hold no count. Both are read with a
// count of 1.
TEST_F(CaffeWeights, averages_without_a_count_are_those_of_one_mini_batch) {
  using Values = std::vector<float>;
  const auto saved = net(1), loaded = net(2), of_darknet = net(3);
  set(*saved, "rolling_mean", 3);
  set(*saved, "rolling_variance", 5);
  EXPECT_EQ(values(*saved, "rolling_batches"), Values({0, 0}));
  ASSERT_TRUE(save_caffe_weights(*saved, folder_ / "x.caffemodel"));
  const log::Capture unsaid;
  ASSERT_TRUE(save_darknet_weights(*saved, folder_ / "x.weights", 0));
  ASSERT_TRUE(load_caffe_weights(*loaded, Files{folder_ / "x.caffemodel"}));
  ASSERT_TRUE(load_darknet_weights(*of_darknet, folder_ / "x.weights"));
  for (Net* each : {loaded.get(), of_darknet.get()}) {
    EXPECT_EQ(values(*each, "rolling_mean"), Values({3, 3}));
    EXPECT_EQ(values(*each, "rolling_variance"), Values({5, 5}));
    EXPECT_EQ(values(*each, "rolling_batches"), Values({1, 1}));
  }
}

// Caffe's inner product reads the values of an image channel by channel. If two files name a layer,
// the last file counts.
TEST_F(CaffeWeights, are_in_the_order_of_the_file) {
  const auto of = net(1);
  std::vector<float> first(32), second(32, 7);
  for (std::size_t i = 0; i < first.size(); ++i) first[i] = static_cast<float>(i);
  const std::string bias = caffe_blob({4}, {1, 2, 3, 4});
  put(folder_ / "a.caffemodel", caffe_layer_bytes("scores", {caffe_blob({4, 8}, second), bias}));
  put(folder_ / "b.caffemodel", caffe_layer_bytes("scores", {caffe_blob({4, 8}, first), bias}));
  const log::Capture said;
  ASSERT_TRUE(load_caffe_weights(*of, Files{folder_ / "a.caffemodel", folder_ / "b.caffemodel"}));
  std::vector<float> weights;  // 4 outputs of 2x2 pixels with 2 channels
  for (const float row : {0.f, 8.f, 16.f, 24.f})
    for (const float pixel : {0.f, 1.f, 2.f, 3.f})
      for (const float channel : {0.f, 4.f}) weights.push_back(row + pixel + channel);
  EXPECT_EQ(values(*of, "connected.weights"), weights);
  EXPECT_NE(said.text().find("no parameters of 'c', 'b', 's': they keep their initial values"),
            std::string::npos)
      << said.text();
}

TEST_F(CaffeWeights, of_every_form_are_read) {
  const std::vector<float> numbers{1, 2, 3, 4};
  std::string four, doubles, loose;
  for (int field = 1; field <= 4; ++field) four += caffe_number(field, field == 4 ? 4 : 1);
  for (const double value : {1., 2., 3., 4.}) {
    const auto bits = std::bit_cast<std::array<char, 8>>(value);
    doubles.append(bits.data(), 8);
    const auto single = std::bit_cast<std::array<char, 4>>(static_cast<float>(value));
    loose += std::string("\x2d") + std::string(single.data(), 4);
  }
  const std::string shape = caffe_bytes(7, caffe_bytes(1, std::string(1, 4)));
  const std::string weights = caffe_blob({4, 8}, std::vector<float>(32, 5));
  for (const std::string& bias : {four + caffe_bytes(5, caffe_floats(numbers)),
                                  shape + caffe_bytes(8, doubles), shape + loose, four + loose}) {
    const auto of = net(1);
    EXPECT_EQ(refusal(*of, caffe_layer_bytes("scores", {weights, bias})), "");
    EXPECT_EQ(values(*of, "connected.bias"), numbers);
  }
  const auto of = net(1);
  EXPECT_EQ(refusal(*of, caffe_bytes(2, caffe_bytes(4, "scores") + caffe_bytes(6, weights) +
                                            caffe_bytes(6, caffe_blob({4}, numbers)))),
            "");
  EXPECT_EQ(values(*of, "connected.bias"), numbers);
}

TEST_F(CaffeWeights, that_do_not_fit_are_refused_by_name) {
  const auto of = net(1);
  const std::string weights = caffe_blob({4, 8}, std::vector<float>(32, 5)),
                    bias = caffe_blob({4}, {1, 2, 3, 4});
  const struct {
    std::string bytes, what;
  } kCases[] = {
      {caffe_layer_bytes("scores", {caffe_blob({3, 8}, std::vector<float>(24)), bias}),
       "layer 'scores': blob 0 is 3x8, the net's is 4x8 (give the net's layer another name"},
      {caffe_layer_bytes("scores", {weights, caffe_blob({1, 1, 4}, {1, 2, 3, 4})}),
       "layer 'scores': blob 1 is 1x1x4, the net's is 4"},
      {caffe_layer_bytes("scores", {weights}), "layer 'scores': has 1 blobs, the net's has 2"},
      {caffe_layer_bytes("scores", {weights, caffe_blob({4}, {1, 2})}),
       "layer 'scores': blob 1 has 2 values, its shape needs 4"},
      {caffe_layer_bytes("others", {bias}),
       "has parameters of no layer that the net has (its layers: 'others')"},
      {caffe_bytes(1, "name"), "has no layers"},
      {"", "has no layers"},
      {caffe_bytes(2, caffe_bytes(1, "")), "layers of the oldest form"},
      {"\x89HDF\r\n\x1a\n----", "HDF5 files are not read (convert it with Caffe"},
      {caffe_bytes(100, std::string(1, '\x0a')), "a message in it cannot be parsed"},
      {std::string("\xa2\x06\x7f", 3), "field 100 at byte 2 has 127 bytes, only 0 follow"},
      {std::string("\x07", 1), "is no message of protobuf"},
  };
  for (const auto& each : kCases) {
    const std::string said = refusal(*of, each.bytes);
    EXPECT_NE(said.find(each.what), std::string::npos)
        << "wanted: " << each.what << "\nsaid: " << said;
    EXPECT_TRUE(said.starts_with(std::string(folder_ / "x.caffemodel") + ": ")) << said;
  }
}

TEST_F(CaffeWeights, cut_off_anywhere_are_refused) {
  const auto saved = net(1), of = net(2);
  ASSERT_TRUE(save_caffe_weights(*saved, folder_ / "whole"));
  const std::string whole = get(folder_ / "whole");
  // A file that is cut off at the end of a layer is a valid file of fewer layers.
  std::size_t readable = 0;
  for (std::size_t size = 0; size < whole.size(); ++size)
    readable += refusal(*of, whole.substr(0, size)).empty() ? 1 : 0;
  EXPECT_EQ(readable, 3u);
}

TEST_F(CaffeWeights, need_names_of_their_own) {
  const auto twice = net(1, 4, "c");
  const Status status = save_caffe_weights(*twice, folder_ / "x.caffemodel");
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message().find("two layers are called 'c'"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.caffemodel"));
  const std::string kernels = caffe_blob({2, 3, 15, 15}, std::vector<float>(1350));
  const std::string said = refusal(*twice, caffe_layer_bytes("c", {kernels}));
  EXPECT_NE(said.find("two layers are called 'c'"), std::string::npos) << said;
}

// The nets are not allocated. With Adam a .solverstate file holds two values for each parameter.
TEST_F(CaffeWeights, larger_than_caffe_reads_are_refused_before_the_training) {
  const auto refused = [&](int outputs, bool adam) {
    const auto net = Net::build(
        parsed(std::string(kCaffeInput) +
               fmt::format("layer {{ name: 'i' type: 'InnerProduct' bottom: 'data' top: 'i'\n"
                           "  inner_product_param {{ num_output: {} }} }}\n"
                           "layer {{ name: 'l' type: 'SoftmaxWithLoss' bottom: 'i' bottom: "
                           "'label' }}\n",
                           outputs)),
        {.training = false, .adam = adam});
    EXPECT_TRUE(net) << net.error().message();
    const Status status = check_parameter_file(**net, "x.caffemodel");
    return status ? "" : status.error().message();
  };
  EXPECT_EQ(refused(400'000, false), "");
  const std::string needs = "307600000 values would need 2460800000 bytes in a file of Caffe";
  EXPECT_NE(refused(400'000, true).find(needs), std::string::npos) << refused(400'000, true);
  EXPECT_NE(refused(800'000, false).find("would need 2460800000 bytes"), std::string::npos);
}

}  // namespace
}  // namespace omni::test
