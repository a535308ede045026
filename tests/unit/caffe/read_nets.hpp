// These functions parse and build nets of Caffe for the tests.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "layers/formats/caffe/caffe.hpp"
#include "layers/net.hpp"
#include "runtime/log.hpp"

namespace omni::test {

inline const std::string kCaffeNets = OMNI_SOURCE_DIR "/apps/nets/caffe/";

inline TrainableNet shipped(const std::string& name) {
  auto net = read_caffe_net(kCaffeNets + name + "_train_test.prototxt",
                            kCaffeNets + name + "_solver.prototxt");
  EXPECT_TRUE(net) << net.error().message();
  return net ? std::move(*net) : TrainableNet{};
}

inline std::unique_ptr<Net> built(const NetDescription& description) {
  auto net = Net::build(description, {.training = true});
  EXPECT_TRUE(net) << net.error().message();
  return net ? std::move(*net) : nullptr;
}

// Returns the type and output shape of every layer, as in "convolutional 24x24x20".
inline std::vector<std::string> outputs(const Net& net) {
  std::vector<std::string> all;
  for (const auto& layer : net.layers()) {
    const Extent& extent = layer->output().extent;
    all.push_back(fmt::format("{} {}x{}x{}", layer->type(), extent.w, extent.h, extent.c));
  }
  return all;
}

inline constexpr const char* kCaffeInput =
    "layer { name: 'data' type: 'Input' top: 'data' top: 'label'\n"
    "  input_param { shape { dim: 2 dim: 3 dim: 16 dim: 16 } } }\n";
inline constexpr const char* kCaffeLoss =
    "layer { name: 'scores' type: 'InnerProduct' bottom: 'last' top: 'scores'\n"
    "  inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'label' }\n";

inline TrainableNet parsed(const std::string& text, const std::string& solver = "",
                           const ReadOptions& how = {}) {
  const log::Capture unsaid;
  auto net = parse_caffe_net({text, "a.prototxt"},
                             solver.empty() ? CaffeFile{} : CaffeFile{solver, "s.prototxt"}, how);
  EXPECT_TRUE(net) << net.error().message();
  return net ? std::move(*net) : TrainableNet{};
}

// Returns a net of one layer with these fields, which reads 'data' and writes 'last', and a loss
// layer.
inline TrainableNet with_layer(const std::string& fields) {
  return parsed(kCaffeInput + ("layer { name: 'it' bottom: 'data' top: 'last' " + fields + " }\n") +
                kCaffeLoss);
}

template <class Options>
Options options_of(const TrainableNet& net, std::size_t layer = 0) {
  const auto* options = std::get_if<Options>(&net.layers.at(layer).options);
  EXPECT_NE(options, nullptr);
  return options != nullptr ? *options : Options{};
}

}  // namespace omni::test
