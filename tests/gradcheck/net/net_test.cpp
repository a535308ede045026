// These tests compare the gradients of a whole net, as its tasks compute them, with differences of
// its loss. So they also test how gradients are passed between layers, with several readers, slices
// and batch statistics.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "runtime/tasks/host_access.hpp"
#include "tests/gradcheck/net/whole_net.hpp"
#include "tests/support/net_text.hpp"

namespace omni {
namespace {

// The net has smooth activations and all layers that share outputs: route, shortcut, two readers of
// one output, and a joining layer.
const std::string kNet =
    test::net(5, {7, 6, 2}) + test::convolutional(6, "tanh") +
    test::convolutional(6, "logistic", "pad=1\nbatch_normalize=1\n") +
    test::layer("shortcut", "from=-2\nactivation=linear\n") +
    test::layer("normalization", "alpha=0.01\nsize=3\n") + test::layer("route", "layers=-1,0\n") +
    test::layer("avgpool", "size=2\nstride=2\npadding=0\n") + test::layer("batchnorm") +
    test::layer("activation", "activation=tanh\n") +
    test::layer("connected", "output=8\nbatch_normalize=1\nactivation=tanh\n") +
    test::connected(4) + test::layer("softmax");

// This net has the layers that ResNets do not have, and another loss.
const std::string kUncommonNet =
    test::net(5, {5, 6, 2}) +
    test::layer("local", "filters=4\nsize=3\npad=1\nstride=2\nactivation=tanh\n") +
    test::layer("local", "filters=3\nsize=2\nactivation=logistic\n") +
    test::layer("deconvolutional", "filters=3\nsize=4\nstride=2\npadding=1\nactivation=tanh\n") +
    test::layer("deconvolutional",
                "filters=2\nsize=2\nstride=3\nbatch_normalize=1\nactivation=tanh\n") +
    test::connected(4) + test::layer("logistic");

// This net has activations whose gradient needs their input, in every kind of layer that ends in an
// activation.
const std::string kKeptInputNet =
    test::net(5, {6, 6, 2}) + test::convolutional(4, "mish") +
    test::convolutional(4, "swish", "pad=1\nbatch_normalize=1\n") +
    test::layer("shortcut", "from=-2\nactivation=gelu\n") +
    test::layer("local", "filters=3\nsize=3\nstride=2\nactivation=gelu\n") +
    test::layer("deconvolutional", "filters=2\nsize=2\nstride=2\nactivation=mish\n") +
    test::layer("activation", "activation=swish\n") +
    test::layer("connected", "output=4\nbatch_normalize=1\nactivation=mish\n") +
    test::connected(4) + test::layer("softmax");

void move(const Param& param, const std::vector<double>& direction, double amount) {
  const HostAccess access(*param.value, HostAccess::Mode::write);
  for (std::size_t i = 0; i < direction.size(); ++i)
    access.f32()[i] += static_cast<float>(amount * direction[i]);
}

class WholeNetOf : public testing::TestWithParam<std::string> {};

TEST_P(WholeNetOf, GradientsAreThoseOfTheLoss) {
  const auto session = Session::start({});
  ASSERT_TRUE(session);
  WholeNet net(GetParam(), 2);
  const auto gradients = net.gradients();
  const std::vector<Param*> params = net.trainable();
  for (std::size_t p = 0; p < params.size(); ++p) {
    // The first direction is the gradient itself, where rounding errors are smallest. The second
    // shows missing parts: about a quarter of the gradient's signs are turned, and 0.01 is added.
    for (const bool turned : {false, true}) {
      Draws draws(Philox(13, RandomStream::init), p);
      std::vector<double> direction;
      double length = 0, slope = 0;
      for (const float g : gradients[p]) {
        const bool turn = turned && draws.below(4) == 0;
        direction.push_back(static_cast<double>(g) * (turn ? -1 : 1) + (turned ? 1e-2 : 0));
        length += direction.back() * direction.back();
        slope += direction.back() * static_cast<double>(g);
      }
      length = std::sqrt(length);
      ASSERT_GT(length, 1e-6) << params[p]->name;
      const double epsilon = 4e-3;
      const auto loss_after = [&](double amount) {
        move(*params[p], direction, amount / length);
        return net.loss();
      };
      const double above = loss_after(epsilon);
      const double below = loss_after(-2 * epsilon);
      move(*params[p], direction, epsilon / length);
      const double measured = (above - below) / (2 * epsilon);
      EXPECT_NEAR(measured, slope / length, 0.02 * std::fabs(slope / length) + 2e-3)
          << params[p]->name << (turned ? ", turned" : "");
    }
  }
}

TEST_P(WholeNetOf, SlicesChangeNothing) {
  const auto session = Session::start({});
  ASSERT_TRUE(session);
  WholeNet whole_net(GetParam(), 5);
  const auto whole = whole_net.gradients();
  const double evaluated = whole_net.evaluation_loss();  // by the statistics that training left
  for (const int slice : {1, 2, 3}) {
    WholeNet sliced_net(GetParam(), slice);
    const auto sliced = sliced_net.gradients();
    EXPECT_NEAR(sliced_net.evaluation_loss(), evaluated, 1e-5 * (1 + evaluated)) << slice;
    for (std::size_t p = 0; p < whole.size(); ++p)
      for (std::size_t i = 0; i < whole[p].size(); ++i)
        EXPECT_NEAR(whole[p][i], sliced[p][i], 2e-4f * (1 + std::fabs(whole[p][i]))) << slice;
  }
}

// Returns the codelets of batch normalisation, by layer, in the order of their submission.
std::map<int, std::vector<std::string>> batchnorm_tasks(const std::vector<CapturedTask>& tasks) {
  std::map<int, std::vector<std::string>> by_layer;
  for (const CapturedTask& task : tasks)
    if (task.codelet.starts_with("batchnorm_"))
      by_layer[task.layer].push_back(task.codelet.substr(std::string("batchnorm_").size()));
  return by_layer;
}

// Batch normalisation is tested in a convolutional layer, as a layer of its own, and in a connected
// layer.
TEST(WholeNet, NormalisesOneSliceInOneTaskEachWay) {
  const auto session = Session::start({});
  ASSERT_TRUE(session);
  using Tasks = std::vector<std::string>;
  const Tasks whole{"forward", "backward"};
  const Tasks sliced{"partial",       "merge",           "partial",    "merge",
                     "finish",        "apply",           "apply",      "backward_reduce",
                     "merge_sums",    "backward_reduce", "merge_sums", "parameter_gradient",
                     "backward_data", "backward_data"};
  for (const auto& [slice, training, evaluation] :
       {std::tuple(5, whole, Tasks{"apply"}), std::tuple(3, sliced, Tasks{"apply", "apply"})}) {
    WholeNet net(kNet, slice);
    const auto each = [](const Tasks& of_a_layer) {
      return std::map<int, Tasks>{{1, of_a_layer}, {6, of_a_layer}, {8, of_a_layer}};
    };
    EXPECT_EQ(batchnorm_tasks(net.tasks(true)), each(training));
    EXPECT_EQ(batchnorm_tasks(net.tasks(false)), each(evaluation));
  }
}

// The layers have a bias, and an activation or none. The mini-batch has one slice or two.
TEST(WholeNet, TakesAnActivationsGradientTogetherWithTheBiass) {
  const auto session = Session::start({});
  ASSERT_TRUE(session);
  const std::string kBiases = test::net(4, {6, 6, 3}) + test::convolutional(4, "relu", "") +
                              test::convolutional(4, "linear", "") + test::connected(3, "elu") +
                              test::layer("softmax");
  const auto count = [](const std::vector<CapturedTask>& tasks, const char* codelet) {
    return std::ranges::count(tasks, codelet, &CapturedTask::codelet);
  };
  const auto one = WholeNet(kBiases, 4).tasks(true), two = WholeNet(kBiases, 2).tasks(true);
  EXPECT_EQ(count(one, "channel_bias_backward"), 2);
  EXPECT_EQ(count(one, "activation_backward"), 0);
  EXPECT_EQ(count(two, "channel_bias_backward"), 0);
  EXPECT_EQ(count(two, "activation_backward"), 4);
}

// In the first layer, batch normalisation computes no gradient of the images.
TEST(WholeNet, NormalisesImages) {
  const auto session = Session::start({});
  ASSERT_TRUE(session);
  constexpr const char* kImages =
      "[net]\nbatch=4\nheight=3\nwidth=5\nchannels=2\n[batchnorm]\n[connected]\noutput=4\n"
      "activation=linear\n[softmax]\n";
  const auto whole = WholeNet(kImages, 4).gradients(), sliced = WholeNet(kImages, 2).gradients();
  ASSERT_EQ(whole.size(), 4u);
  for (std::size_t p = 0; p < whole.size(); ++p)
    for (std::size_t i = 0; i < whole[p].size(); ++i)
      EXPECT_NEAR(whole[p][i], sliced[p][i], 1e-5f * (1 + std::fabs(whole[p][i]))) << p;
}

// The first two layers are large enough to be cut by neurons. The first reads images and has a
// narrow last block. The second keeps the inputs of its activation.
const std::string kSplitNet = test::net(5, {16, 16, 4}) + test::connected(1030, "tanh") +
                              test::connected(1024, "swish") + test::connected(4) +
                              test::layer("softmax");

// In this net's residual blocks, the normalisation also computes the sum. The second block has a
// projection, which reads the block's input like the block's first convolution.
const std::string kResidualNet = test::net(5, {6, 6, 2}) +
                                 test::convolutional(6, "tanh", "pad=1\nbatch_normalize=1\n") +
                                 test::convolutional(6, "linear", "pad=1\nbatch_normalize=1\n") +
                                 test::layer("shortcut", "from=-2\nactivation=tanh\n") +
                                 test::convolutional(8, "linear", "stride=2\nbatch_normalize=1\n") +
                                 test::layer("route", "layers=-2\n") +
                                 test::convolutional(8, "linear", "stride=2\nbatch_normalize=1\n") +
                                 test::layer("shortcut", "from=-3\nactivation=logistic\n") +
                                 test::connected(4) + test::layer("softmax");

// This net has three losses. Two of them read what another loss reads, too.
const std::string kLossesNet =
    test::net(5, {7, 6, 2}) + test::convolutional(6, "tanh") + test::connected(4) +
    test::layer("softmax", "loss_weight=0.3\n") + test::layer("route", "layers=1\n") +
    test::layer("logistic", "loss_weight=0.5\n") + test::layer("route", "layers=0\n") +
    test::convolutional(5, "tanh", "pad=1\nbatch_normalize=1\n") + test::connected(4) +
    test::layer("softmax", "loss_weight=2\n");

// Auxiliary losses count in training alone. In an evaluation, their layers submit no task.
TEST(WholeNet, AddsUpItsLosses) {
  const auto session = Session::start({});
  ASSERT_TRUE(session);
  const auto weighted = [](double first, double second, double last) {
    std::string text = kLossesNet;
    for (const auto& [was, is] : {std::pair("=0.3", first), {"=0.5", second}, {"=2", last}})
      text.replace(text.find(std::string("weight") + was) + 7, std::string(was).size() - 1,
                   fmt::format("{}", is));
    return WholeNet(text, 2).loss();
  };
  const double none = 1e-6, first = weighted(1, none, none), second = weighted(none, 1, none),
               last = weighted(none, none, 1);
  EXPECT_NEAR(weighted(0.3, 0.5, 2), 0.3 * first + 0.5 * second + 2 * last, 1e-3);
  EXPECT_NEAR(WholeNet(kLossesNet, 2).evaluation_loss(), WholeNet(kLossesNet, 5).evaluation_loss(),
              1e-4);
  WholeNet net(kLossesNet, 2);
  for (const CapturedTask& task : net.tasks(false))
    EXPECT_TRUE(task.layer == 0 || task.layer > 5) << task.codelet << " of " << task.layer;
}

std::string name_of(const testing::TestParamInfo<std::string>& net) {
  return std::array{"usual", "uncommon", "kept_input", "split", "residual", "losses"}[net.index];
}

INSTANTIATE_TEST_SUITE_P(, WholeNetOf,
                         testing::Values(kNet, kUncommonNet, kKeptInputNet, kSplitNet, kResidualNet,
                                         kLossesNet),
                         name_of);

const std::string kFrozen =
    test::net(4, {5, 5, 2}) + test::convolutional(3, "tanh", "batch_normalize=1\n") +
    test::layer("convolutional", "filters=4\nsize=1\nactivation=tanh\nstopbackward=1\n") +
    test::layer("convolutional", "filters=2\nsize=1\nactivation=tanh\n") +
    test::layer("route", "layers=-2\n") + test::connected(4) + test::layer("softmax");

// As in Darknet, the layer with stopbackward and all layers before it learn nothing. Layer 2 learns
// nothing because no layer reads its output.
TEST(WholeNet, StopbackwardFreezesWhatLiesBehind) {
  const auto session = Session::start({});
  ASSERT_TRUE(session);
  WholeNet net(kFrozen, 2);
  const auto gradients = net.gradients();
  const std::vector<Param*> params = net.trainable();
  ASSERT_EQ(params.size(), 2u);  // layer 4, bias and weights
  for (std::size_t p = 0; p < params.size(); ++p) {
    EXPECT_TRUE(params[p]->name.starts_with("004")) << params[p]->name;
    EXPECT_TRUE(std::any_of(gradients[p].begin(), gradients[p].end(), [](float value) {
      return value != 0;
    })) << params[p]->name;
  }
}

}  // namespace
}  // namespace omni
