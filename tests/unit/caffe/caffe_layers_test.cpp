// These tests check which layers omni-run makes of the types of Caffe's layers, and the shapes of
// the larger nets that come with it.
#include <cmath>

#include "codelets/loss/cost_loss.hpp"
#include "runtime/tasks/host_access.hpp"
#include "tests/support/with_session.hpp"
#include "tests/unit/caffe/read_nets.hpp"

namespace omni::test {
namespace {

TEST(CaffeLayers, slopes_are_learned_or_constant) {
  const TrainableNet learned = with_layer("type: 'PReLU' param { lr_mult: 3 decay_mult: 0 }");
  const auto net = built(learned);
  ASSERT_NE(net, nullptr);
  const Param& slopes = *net->layers()[0]->params().at(0);
  EXPECT_EQ(slopes.shape, (std::vector<std::int64_t>{3})) << "one per channel";
  EXPECT_EQ(slopes.filler.scale, 0.25f) << "Caffe's default";
  EXPECT_EQ(slopes.rate, 3);
  EXPECT_EQ(slopes.decay, 0);
  const auto shared = built(with_layer(
      "type: 'PReLU' prelu_param { channel_shared: true filler { type: 'constant' value: 2 } }"));
  ASSERT_NE(shared, nullptr);
  const Param& slope = *shared->layers()[0]->params().at(0);
  EXPECT_EQ(slope.shape, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(slope.filler.scale, 2);
  EXPECT_EQ(slope.decay, 1) << "it decays, as all of Caffe's parameters do";
  const TrainableNet fixed = with_layer("type: 'ReLU' relu_param { negative_slope: -0.2 }");
  EXPECT_EQ(options_of<PReluOptions>(fixed).constant, -0.2f);
  EXPECT_TRUE(built(fixed)->layers()[0]->params().empty());
}

TEST(CaffeLayers, a_slice_becomes_a_layer_for_each_top) {
  const auto channels = [](const std::string& fields) {
    const auto net =
        built(parsed(std::string(kCaffeInput) +
                     "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c'\n"
                     "  convolution_param { num_output: 6 kernel_size: 1 } }\n"
                     "layer { name: 's' type: 'Slice' bottom: 'c' top: 'x' top: 'y' top: 'last' " +
                     fields + "}\n" + kCaffeLoss));
    EXPECT_NE(net, nullptr);
    std::vector<std::string> all;
    for (std::size_t i = 1; i < 4; ++i) {
      all.push_back(net->layers()[i]->detail());
      EXPECT_EQ(net->layers()[i]->inputs()[0]->blob, &net->layers()[0]->output());
    }
    EXPECT_EQ(net->layers()[4]->inputs()[0]->blob, &net->layers()[3]->output());
    return all;
  };
  EXPECT_EQ(channels(""),
            (std::vector<std::string>{"channels 0 to 1", "channels 2 to 3", "channels 4 to 5"}));
  EXPECT_EQ(channels("slice_param { slice_point: 1 slice_point: 5 }"),
            (std::vector<std::string>{"channels 0 to 0", "channels 1 to 4", "channels 5 to 5"}));
}

TEST(CaffeLayers, deconvolutions_have_caffes_sizes_and_shapes) {
  const auto net = built(
      with_layer("type: 'Deconvolution' convolution_param { num_output: 6 kernel_h: 4 kernel_w: 3 "
                 "stride_h: 2 stride_w: 3 pad_h: 1 dilation: 1 dilation: 2 group: 3 }"));
  ASSERT_NE(net, nullptr);
  // stride * (side - 1) + dilation * (kernel - 1) + 1 - 2 * pad
  EXPECT_EQ(net->layers()[0]->output().extent, (Extent{2 * 15 + 4 - 2, 3 * 15 + 5, 6}));
  EXPECT_EQ(net->layers()[0]->params().back()->shape, (std::vector<std::int64_t>{3, 4, 3, 2}));
}

TEST(CaffeLayers, a_hinge_loss_ends_the_net) {
  const auto loss = [](const std::string& fields) {
    const TrainableNet net =
        parsed(std::string(kCaffeInput) +
                   "layer { name: 's' type: 'InnerProduct' bottom: 'data' top: 's'\n"
                   "  inner_product_param { num_output: 4 } }\n"
                   "layer { name: 'l' type: 'HingeLoss' bottom: 's' bottom: 'label' " +
                   fields + " }\n",
               "", {.classes = 5});
    EXPECT_EQ(options_of<ConnectedOptions>(net, 0).outputs, 5) << "--classes sets them";
    EXPECT_TRUE(built(net)->layers().back()->is_loss());
    return options_of<DistanceOptions>(net, 1).distance;
  };
  EXPECT_EQ(loss(""), Distance::hinge);
  EXPECT_EQ(loss("loss_weight: 1 hinge_loss_param { norm: L2 }"), Distance::squared_hinge);
}

TEST(CaffeLayers, response_within_a_channel_is_what_caffe_makes_of_it) {
  const TrainableNet net = with_layer(
      "type: 'LRN' lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 norm_region: WITHIN_CHANNEL }");
  ASSERT_EQ(net.layers.size(), 6u);
  EXPECT_EQ(options_of<PowerOptions>(net, 0).power, 2);
  EXPECT_EQ(options_of<WindowOptions>(net, 1).size, (Sides{3, 3}));
  EXPECT_EQ(options_of<PowerOptions>(net, 2).power, -0.75f);
  EXPECT_EQ(options_of<PowerOptions>(net, 2).scale, 0.5f);
  EXPECT_EQ(options_of<PowerOptions>(net, 2).shift, 1);
  const auto made = built(net);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->layers()[3]->output().extent, (Extent{16, 16, 3}));
  EXPECT_EQ(made->layers()[3]->inputs()[0]->blob, &made->image());
  EXPECT_EQ(made->layers()[3]->inputs()[1]->blob, &made->layers()[2]->output());
}

// The numbers of parameters are those of the papers and of Caffe's models.
TEST(CaffeLayers, the_larger_nets_have_caffes_parameters) {
  struct {
    const char* name;
    std::size_t parameters;
    Extent input;
    int batch;
  } const kNets[] = {{"cifar10_full", 89'578, {32, 32, 3}, 100},
                     {"alexnet", 60'965'224, {227, 227, 3}, 256},
                     {"caffenet", 60'965'224, {227, 227, 3}, 256},
                     {"googlenet", 13'378'280, {224, 224, 3}, 32}};
  for (const auto& each : kNets) {
    SCOPED_TRACE(each.name);
    const TrainableNet read = shipped(each.name);
    EXPECT_EQ(read.options.input, each.input);
    EXPECT_EQ(read.options.batch, each.batch);
    const auto net = Net::build(read, {.training = false});
    ASSERT_TRUE(net) << net.error().message();
    EXPECT_EQ((*net)->parameter_count(), each.parameters);
    EXPECT_EQ((*net)->classes(), read.options.input.h == 32 ? 10 : 1000);
    EXPECT_EQ(read.snapshots.prefix, each.name);
  }
  EXPECT_EQ(shipped("googlenet").averaged_losses, 40);
}

class CaffeFillers : public WithSession {
 protected:
  CaffeFillers() : WithSession(with_workers(1)) {}
};

// The shares along a side are those of Caffe's formula, which is symmetric for even sizes only.
TEST_F(CaffeFillers, bilinear_filters_enlarge) {
  constexpr std::size_t kOutputs = 2;  // of each group
  const std::vector<float> all_shares[] = {{0.25f, 0.75f, 0.75f, 0.25f}, {0.25f, 0.75f, 0.75f}};
  for (const std::vector<float>& shares : all_shares) {
    const auto net = built(with_layer(
        fmt::format("type: 'Deconvolution' convolution_param {{ num_output: 6 kernel_size: {} "
                    "group: 3 weight_filler {{ type: 'bilinear' }} }}",
                    shares.size())));
    ASSERT_NE(net, nullptr);
    ASSERT_TRUE(net->allocate());
    net->initialise(1);
    const HostAccess weights(*net->layers()[0]->params().back()->master, HostAccess::Mode::read);
    const std::size_t size = shares.size();
    ASSERT_EQ(weights.f32().size(), 3 * size * size * kOutputs);
    for (std::size_t i = 0; i < weights.f32().size(); ++i)
      EXPECT_EQ(weights.f32()[i],
                shares[i / (size * kOutputs) % size] * shares[i / kOutputs % size])
          << i;
  }
}

}  // namespace
}  // namespace omni::test
