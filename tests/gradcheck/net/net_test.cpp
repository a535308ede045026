// The gradients of a whole net, as its tasks compute them, against differences of its loss: what
// routes gradients between layers (several consumers, slices, batch statistics) has no test of its
// own.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "runtime/tasks/host_access.hpp"
#include "tests/gradcheck/net/whole_net.hpp"

namespace omni {
namespace {

// Smooth activations; every blob-sharing construct: route, shortcut, two consumers, and a joining
// layer between them. (stopbackward cuts one path.)
constexpr const char* kNet = R"([net]
batch=5
height=7
width=6
channels=2
[convolutional]
filters=6
size=3
pad=1
activation=tanh
[convolutional]
filters=6
size=3
pad=1
batch_normalize=1
activation=logistic
[shortcut]
from=-2
activation=linear
[normalization]
alpha=0.01
size=3
[route]
layers=-1,0
[avgpool]
size=2
stride=2
padding=0
[batchnorm]
[activation]
activation=tanh
[connected]
output=8
batch_normalize=1
activation=tanh
[connected]
output=4
activation=linear
[softmax]
)";

// The layers that ResNets do not have, with their own loss.
constexpr const char* kUncommonNet = R"([net]
batch=5
height=5
width=6
channels=2
[local]
filters=4
size=3
pad=1
stride=2
activation=tanh
[local]
filters=3
size=2
activation=logistic
[deconvolutional]
filters=3
size=4
stride=2
padding=1
activation=tanh
[deconvolutional]
filters=2
size=2
stride=3
batch_normalize=1
activation=tanh
[connected]
output=4
activation=linear
[logistic]
)";

// Activations whose gradient needs the value before them, in every kind of layer that ends in one.
constexpr const char* kKeptInputNet = R"([net]
batch=5
height=6
width=6
channels=2
[convolutional]
filters=4
size=3
pad=1
activation=mish
[convolutional]
filters=4
size=3
pad=1
batch_normalize=1
activation=swish
[shortcut]
from=-2
activation=gelu
[local]
filters=3
size=3
stride=2
activation=gelu
[deconvolutional]
filters=2
size=2
stride=2
activation=mish
[activation]
activation=swish
[connected]
output=4
batch_normalize=1
activation=mish
[connected]
output=4
activation=linear
[softmax]
)";

void move(const Param& param, const std::vector<double>& direction, double amount) {
  const HostAccess access(*param.value, HostAccess::Mode::write);
  for (std::size_t i = 0; i < direction.size(); ++i)
    access.f32()[i] += static_cast<float>(amount * direction[i]);
}

class WholeNetOf : public testing::TestWithParam<const char*> {};

TEST_P(WholeNetOf, GradientsAreThoseOfTheLoss) {
  const auto session = Session::start({});
  ASSERT_TRUE(session);
  WholeNet net(GetParam(), 2);
  const auto gradients = net.gradients();
  const std::vector<Param*> params = net.trainable();
  for (std::size_t p = 0; p < params.size(); ++p) {
    // Along the gradient itself, where float noise is smallest; and along it with half of the signs
    // turned at random, which notices parts that are missing.
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
  const double evaluated = whole_net.evaluation_loss();  // by what training left
  for (const int slice : {1, 2, 3}) {
    WholeNet sliced_net(GetParam(), slice);
    const auto sliced = sliced_net.gradients();
    EXPECT_NEAR(sliced_net.evaluation_loss(), evaluated, 1e-5 * (1 + evaluated)) << slice;
    for (std::size_t p = 0; p < whole.size(); ++p)
      for (std::size_t i = 0; i < whole[p].size(); ++i)
        EXPECT_NEAR(whole[p][i], sliced[p][i], 2e-4f * (1 + std::fabs(whole[p][i]))) << slice;
  }
}

// The codelets of batch normalisation, by layer, in the order of their submission.
std::map<int, std::vector<std::string>> batchnorm_tasks(const std::vector<CapturedTask>& tasks) {
  std::map<int, std::vector<std::string>> by_layer;
  for (const CapturedTask& task : tasks)
    if (task.codelet.starts_with("batchnorm_"))
      by_layer[task.layer].push_back(task.codelet.substr(std::string("batchnorm_").size()));
  return by_layer;
}

// In a convolutional layer, as a layer of its own, and in a connected layer.
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

// Of a layer with a bias and an activation, and without the latter; in one slice and in two.
TEST(WholeNet, TakesAnActivationsGradientTogetherWithTheBiass) {
  const auto session = Session::start({});
  ASSERT_TRUE(session);
  constexpr const char* kBiases = R"([net]
batch=4
height=6
width=6
channels=3
[convolutional]
filters=4
size=3
activation=relu
[convolutional]
filters=4
size=3
activation=linear
[connected]
output=3
activation=elu
[softmax]
)";
  const auto count = [](const std::vector<CapturedTask>& tasks, const char* codelet) {
    return std::ranges::count(tasks, codelet, &CapturedTask::codelet);
  };
  const auto one = WholeNet(kBiases, 4).tasks(true), two = WholeNet(kBiases, 2).tasks(true);
  EXPECT_EQ(count(one, "channel_bias_backward"), 2);
  EXPECT_EQ(count(one, "activation_backward"), 0);
  EXPECT_EQ(count(two, "channel_bias_backward"), 0);
  EXPECT_EQ(count(two, "activation_backward"), 4);
}

// The first layer of a net: nobody wants the gradient of the images.
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

// Connected layers large enough to be split by neurons: one that reads images, one whose last block
// is narrow, and one that sends its gradient on and keeps the values before its activation.
constexpr const char* kSplitNet = R"([net]
batch=5
height=16
width=16
channels=4
[connected]
output=1030
activation=tanh
[connected]
output=1024
activation=swish
[connected]
output=4
activation=linear
[softmax]
)";

// Residual blocks: the normalisation makes the sum. The second one has a projection, whose input
// has three readers.
constexpr const char* kResidualNet = R"([net]
batch=5
height=6
width=6
channels=2
[convolutional]
filters=6
size=3
pad=1
batch_normalize=1
activation=tanh
[convolutional]
filters=6
size=3
pad=1
batch_normalize=1
activation=linear
[shortcut]
from=-2
activation=tanh
[convolutional]
filters=8
size=3
stride=2
batch_normalize=1
activation=linear
[route]
layers=-2
[convolutional]
filters=8
size=3
stride=2
batch_normalize=1
activation=linear
[shortcut]
from=-3
activation=logistic
[connected]
output=4
activation=linear
[softmax]
)";

std::string name_of(const testing::TestParamInfo<const char*>& net) {
  return std::array{"usual", "uncommon", "kept_input", "split", "residual"}[net.index];
}

INSTANTIATE_TEST_SUITE_P(, WholeNetOf,
                         testing::Values(kNet, kUncommonNet, kKeptInputNet, kSplitNet,
                                         kResidualNet),
                         name_of);

constexpr const char* kFrozen = R"([net]
batch=4
height=5
width=5
channels=2
[convolutional]
filters=3
size=3
batch_normalize=1
activation=tanh
[convolutional]
filters=4
size=1
activation=tanh
stopbackward=1
[convolutional]
filters=2
size=1
activation=tanh
[route]
layers=-2
[connected]
output=4
activation=linear
[softmax]
)";

// In the layer with stopbackward, in all before it and in a branch that ends nowhere nothing
// learns, as in Darknet; in front everything does, whatever it reads.
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
