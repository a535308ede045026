// These tests build nets from descriptions without any file: layers name their inputs and outputs,
// and parameters have roles. The tests also check the default values.
#include "layers/net_description.hpp"

#include <gtest/gtest.h>

#include "layers/formats/darknet/darknet.hpp"
#include "layers/net.hpp"

namespace omni {
namespace {

LayerDescription layer(const std::string& type, std::vector<std::string> inputs,
                       const std::string& output, LayerOptions options = {}) {
  return {.type = type,
          .name = output,
          .where = "a net:" + output,
          .inputs = std::move(inputs),
          .outputs = {output},
          .options = options};
}

// Returns a net with two branches, which a layer adds up, and an activation that overwrites its
// input.
NetDescription branches() {
  NetDescription net;
  net.where = "a net";
  net.inputs = {"pixels"};
  net.options.input = {4, 4, 2};
  net.options.batch = 4;
  const FilterOptions filters{.filters = 3, .size = {3, 3}, .padding = {1, 1}};
  net.layers = {layer("convolutional", {"pixels"}, "a", filters),
                layer("activation", {"a"}, "a", ActivationOptions{}),
                layer("convolutional", {"pixels"}, "b", filters),
                layer("shortcut", {"a", "b"}, "sum", SumOptions{}),
                layer("connected", {"sum"}, "scores", ConnectedOptions{.outputs = 5}),
                layer("softmax", {"scores"}, "loss", SoftmaxOptions{})};
  return net;
}

std::string refusal(const NetDescription& net) {
  const auto built = Net::build(net, {});
  EXPECT_FALSE(built);
  return built ? "" : built.error().message();
}

TEST(NetDescription, names_say_what_a_layer_reads) {
  const auto net = Net::build(branches(), {});
  ASSERT_TRUE(net) << net.error().message();
  const auto& layers = (*net)->layers();
  EXPECT_EQ(layers[1]->inputs()[0]->blob, &layers[0]->output());
  EXPECT_EQ(layers[3]->inputs()[0]->blob, &layers[1]->output()) << "in place: the newest of a name";
  EXPECT_EQ(layers[3]->inputs()[1]->blob, &layers[2]->output());
  EXPECT_EQ((*net)->classes(), 5);
}

TEST(NetDescription, parameters_are_told_by_role) {
  NetDescription described = branches();
  described.layers[4].params = {
      {ParamRole::weights, {.filler = Filler{Filler::Kind::constant, 7}, .rate = 2, .decay = 3}},
      {ParamRole::bias, {.rate = 4, .decay = 5}}};
  const auto net = Net::build(described, {});
  ASSERT_TRUE(net) << net.error().message();
  for (const Param* param : (*net)->layers()[4]->params()) {
    const bool weights = param->role == ParamRole::weights;
    EXPECT_EQ(param->rate, weights ? 2 : 4);
    EXPECT_EQ(param->decay, weights ? 3 : 5);
    EXPECT_EQ(param->filler.scale, weights ? 7 : 0);
  }
  for (const Param* param : (*net)->layers()[0]->params()) {
    EXPECT_EQ(param->rate, 1);
    EXPECT_EQ(param->decay, param->role == ParamRole::weights ? 1 : 0) << "biases do not decay";
  }
}

TEST(NetDescription, is_refused_with_the_reason) {
  NetDescription net = branches();
  net.layers[3].inputs[1] = "c";
  EXPECT_EQ(refusal(net), "a net:sum: no layer above makes its input 'c'");
  net = branches();
  net.layers[3].inputs.pop_back();
  EXPECT_EQ(refusal(net), "a net:sum: a sum has two inputs (name another one)");
  net = branches();
  net.layers[0].outputs.push_back("more");
  EXPECT_EQ(refusal(net),
            "a net:a: the layer has 1 inputs and 2 outputs (it needs an input, and makes one "
            "output)");
  net = branches();
  net.inputs.push_back("more");
  EXPECT_EQ(
      refusal(net),
      "a net: the net has 2 inputs (join them to one, and take each out of it by a layer of type "
      "part)");
  net = branches();
  net.layers[4].params[ParamRole::weights].shared_as = "both";
  EXPECT_EQ(refusal(net),
            "a net:scores: 004.connected.weights is shared as 'both' (layers do not share "
            "parameters: give each its own)");
  net = branches();
  net.layers[4].options = SumOptions{};
  EXPECT_EQ(refusal(net), "a net:scores: has options of another type of layer");
  net = branches();
  net.layers[4].type = "conected";
  EXPECT_EQ(refusal(net), "a net:scores: there is no type of layer 'conected'");
}

constexpr const char* kSolved =
    "[net]\nbatch=8\nsubdivisions=4\nheight=2\nwidth=2\nmomentum=x\nmax_batches=90\n"
    "policy=step\nstep=5\n[softmax]\n";

TEST(ReadOptions, named_ones_take_the_place_of_the_file_s) {
  const auto wrong = parse_darknet_cfg(kSolved, "a.cfg");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().where, "a.cfg:6");
  const auto net = parse_darknet_cfg(kSolved, "a.cfg",
                                     {.named = {.batch = 6, .max_batches = 0, .momentum = 0.25f},
                                      .settings = {"momentum=0.5", "decay=0.125"},
                                      .endless = true});
  ASSERT_TRUE(net) << net.error().message();
  EXPECT_EQ(net->solver.momentum, 0.25f);
  EXPECT_EQ(net->solver.decay, 0.125f);
  EXPECT_EQ(net->options.batch, 6);
  EXPECT_EQ(net->options.subdivisions, 3) << "2 images at once, as in the file";
  EXPECT_EQ(net->designed_length, 90u);
  EXPECT_GT(net->solver.max_batches, 1'000'000'000);
  EXPECT_EQ(net->place_of("policy"), "a.cfg:8");
  EXPECT_EQ(net->place_of("momentum"), "command line");
  EXPECT_EQ(net->place_of("burn_in"), "a.cfg:1");
  EXPECT_EQ(net->commanded,
            (std::set<std::string, std::less<>>{"batch", "decay", "max_batches", "momentum"}));
}

TEST(ReadOptions, without_learning_the_rate_is_0_unless_the_command_line_sets_it) {
  const std::string text =
      "[net]\nheight=2\nwidth=2\nlearning_rate=0.5\npolicy=exp\ngamma=0.9\n[softmax]\n";
  const auto still = parse_darknet_cfg(text, "a.cfg", {.learns = false});
  ASSERT_TRUE(still) << still.error().message();
  EXPECT_EQ(still->solver.learning_rate, 0);
  EXPECT_EQ(still->solver.policy, RatePolicy::constant);
  const auto set = parse_darknet_cfg(
      text, "a.cfg",
      {.named = {.policy = RatePolicy::exp}, .settings = {"learning_rate=0.25"}, .learns = false});
  ASSERT_TRUE(set) << set.error().message();
  EXPECT_EQ(set->solver.learning_rate, 0.25f);
  EXPECT_EQ(set->solver.policy, RatePolicy::exp);
}

TEST(ReadOptions, named_ones_are_checked_as_the_file_s) {
  NamedOptions named;
  EXPECT_EQ(set_named(named, "momentum", "2").error().message(),
            "command line: 'momentum=2' is out of range (expected a number from -1 to 1)");
  EXPECT_TRUE(set_named(named, "policy", "sgdr"));
  EXPECT_EQ(named.policy, RatePolicy::sgdr);
}

}  // namespace
}  // namespace omni
