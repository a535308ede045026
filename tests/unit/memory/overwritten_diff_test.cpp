// These tests check for which weights an iteration overwrites the gradient (diff) instead of adding
// to it.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "layers/formats/darknet/darknet.hpp"
#include "layers/net.hpp"
#include "tests/support/net_text.hpp"

namespace omni {
namespace {

// The first connected layer has 1.06 million weights. With several slices it is cut into blocks of
// neurons.
std::set<std::string> overwrites_diff(const std::string& options, const BuildOptions& build) {
  const auto net = Net::build(
      *parse_darknet_cfg(test::net(8, {16, 16, 1}, options) + test::convolutional(4, "logistic") +
                             test::connected(1034, "logistic") + test::connected(3, "logistic") +
                             test::layer("softmax"),
                         "net"),
      build);
  EXPECT_TRUE(net) << net.error().message();
  std::set<std::string> names;
  for (const Param* param : (*net)->params())
    if (param->overwrites_diff) names.insert(param->name);
  return names;
}

const std::set<std::string> kAll{"000.convolutional.weights", "001.connected.weights",
                                 "002.connected.weights"};

TEST(WrittenOnce, where_one_gpu_computes_them_in_one_slice) {
  EXPECT_EQ(overwrites_diff("", {.training = true, .gpus = 1}), kAll);
}

TEST(WrittenOnce, nowhere_else) {
  EXPECT_TRUE(overwrites_diff("subdivisions=2\n", {.training = true, .gpus = 1}).empty());
  EXPECT_TRUE(overwrites_diff("", {.training = true, .gpus = 2}).empty());
  EXPECT_TRUE(overwrites_diff("", {.training = true, .slice = 4, .gpus = 1}).empty());
  EXPECT_TRUE(overwrites_diff("", {.training = true, .cores = 1}).empty());
  EXPECT_TRUE(overwrites_diff("", {.training = false, .gpus = 1}).empty());
}

}  // namespace
}  // namespace omni
