// These tests check nets of Caffe with several losses, with stages, and with layers and fillers of
// which most nets have none.
#include <cmath>
#include <limits>

#include "codelets/functions/curve.hpp"
#include "runtime/tasks/host_access.hpp"
#include "tests/support/with_session.hpp"
#include "tests/unit/caffe/read_nets.hpp"

namespace omni::test {
namespace {

constexpr const char* kScores =
    "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a'\n"
    "  inner_product_param { num_output: 4 } }\n"
    "layer { name: 'b' type: 'InnerProduct' bottom: 'data' top: 'b'\n"
    "  inner_product_param { num_output: 4 } }\n";

std::string loss_of(const std::string& blob, const std::string& fields = "") {
  return fmt::format(
      "layer {{ name: 'of {}' type: 'SoftmaxWithLoss' bottom: '{}' bottom: 'label' {} }}\n", blob,
      blob, fields);
}

TEST(CaffeLosses, the_last_is_the_nets_own) {
  const TrainableNet net =
      parsed(std::string(kCaffeInput) + kScores + loss_of("a", "loss_weight: 0.3") +
                 "layer { name: 'act' type: 'TanH' bottom: 'b' top: 'c' }\n" + loss_of("b") +
                 "layer { name: 'late' type: 'ReLU' bottom: 'a' top: 'a' }\n" +
                 "layer { name: 'measure' type: 'Accuracy' bottom: 'b' bottom: 'label' }\n",
             "", {.classes = 7});
  ASSERT_EQ(net.layers.size(), 6u);
  EXPECT_EQ(net.layers[2].type, "softmax");
  EXPECT_TRUE(net.layers[2].auxiliary);
  EXPECT_EQ(net.layers[2].loss_weight, 0.3f);
  EXPECT_EQ(net.layers[4].name, "late") << "in place, behind the loss that reads a";
  EXPECT_FALSE(net.layers[5].auxiliary);
  EXPECT_EQ(net.layers[5].name, "of b");
  for (const std::size_t scores : {0, 1})
    EXPECT_EQ(options_of<ConnectedOptions>(net, scores).outputs, 7) << "--classes sets both";
  const auto made = built(net);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->layers()[2]->loss_weight(), 0.3f);
}

TEST(CaffeLosses, a_loss_of_weight_0_is_none) {
  const TrainableNet net =
      parsed(std::string(kCaffeInput) + kScores + loss_of("a") + loss_of("b", "loss_weight: 0"));
  ASSERT_EQ(net.layers.size(), 3u);
  EXPECT_EQ(net.layers[2].name, "of a");
}

TEST(CaffeLosses, labels_are_ignored_and_means_are_those_of_caffe) {
  const auto options = [](const std::string& loss, const std::string& accuracy = "") {
    return options_of<SoftmaxOptions>(
        parsed(std::string(kCaffeInput) + kScores + loss_of("b", "loss_param { " + loss + " }") +
               accuracy),
        2);
  };
  const auto mean = [&](const char* loss) { return options(loss).mean; };
  EXPECT_EQ(options("").ignored, -1);
  EXPECT_EQ(options("ignore_label: 255").ignored, 255);
  EXPECT_EQ(options("ignore_label: 255").not_judged, 255) << "where no Accuracy says otherwise";
  EXPECT_EQ(options("ignore_label: -1").ignored, -1);
  EXPECT_EQ(mean("ignore_label: 1"), MeanLoss::of_labelled);
  EXPECT_EQ(mean("ignore_label: 1 normalization: VALID"), MeanLoss::of_labelled);
  EXPECT_EQ(mean("ignore_label: 1 normalization: FULL"), MeanLoss::of_all);
  EXPECT_EQ(mean("ignore_label: 1 normalization: BATCH_SIZE"), MeanLoss::of_all);
  EXPECT_EQ(mean("normalization: NONE"), MeanLoss::none);
  EXPECT_EQ(mean("ignore_label: 1 normalize: false"), MeanLoss::of_all);
  EXPECT_EQ(mean("ignore_label: 1 normalize: true"), MeanLoss::of_labelled);
  EXPECT_EQ(mean("ignore_label: 1 normalize: false normalization: VALID"), MeanLoss::of_labelled);
  EXPECT_EQ(mean("normalization: BATCH_SIZE"), MeanLoss::of_labelled) << "the same without it";
  const std::string accuracy = "layer { name: 'm' type: 'Accuracy' bottom: 'b' bottom: 'label' ";
  EXPECT_EQ(options("ignore_label: 2", accuracy + "}").not_judged, -1);
  EXPECT_EQ(
      options("ignore_label: 2", accuracy + "accuracy_param { ignore_label: 3 } }").not_judged, 3);
  EXPECT_EQ(options("ignore_label: 2", accuracy + "include { phase: TRAIN } }").not_judged, 2);
  const TrainableNet two =
      parsed(std::string(kCaffeInput) + kScores + loss_of("a", "loss_param { ignore_label: 9 }") +
             loss_of("b", "loss_param { ignore_label: 8 }") + accuracy + "}\n");
  const std::vector<LabelLimit> limits = built(two)->label_limits();
  ASSERT_EQ(limits.size(), 2u);
  EXPECT_EQ(limits[0].ignored, 9);
  EXPECT_NE(limits[0].where.find("layer 'of a'"), std::string::npos);
  EXPECT_EQ(limits[1].ignored, kNoLabel) << "the Accuracy counts label 8, which is no class";
  EXPECT_EQ(limits[1].where, "");
}

TEST(CaffeLosses, ranks_that_share_a_mini_batch_ignore_no_label) {
  const TrainableNet net =
      parsed(std::string(kCaffeInput) + kScores + loss_of("a", "loss_param { ignore_label: 1 }"));
  const auto shared = Net::build(net, {.training = true, .shares = {.ranks = 2}});
  ASSERT_FALSE(shared);
  EXPECT_NE(shared.error().message().find("an ignored label, and several ranks share"),
            std::string::npos)
      << shared.error().message();
}

TEST(CaffeLosses, several_weights_are_those_of_the_tops) {
  const TrainableNet net =
      parsed(std::string(kCaffeInput) + kScores +
             loss_of("a", "top: 'l' top: 'p' loss_weight: 0.5 loss_weight: 0"));
  EXPECT_EQ(net.layers.back().loss_weight, 0.5f);
}

TEST(CaffeLosses, googlenet_has_three) {
  const TrainableNet net = shipped("googlenet");
  std::vector<float> weights;
  for (const LayerDescription& layer : net.layers)
    if (layer.type == "softmax") weights.push_back(layer.loss_weight);
  EXPECT_EQ(weights, (std::vector<float>{0.3f, 0.3f, 1}));
  const auto made = built(net);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->parameter_count(), 13'378'280u);
}

// Groups do not merge the layers behind an auxiliary loss.
TEST(CaffeLosses, groups_have_copies_of_all_layers) {
  const std::string text = std::string(kCaffeInput) +
                           "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'\n"
                           "  convolution_param { num_output: 2 kernel_size: 3 } }\n" +
                           kScores + loss_of("b");
  for (const bool several : {false, true}) {
    const auto net = Net::build(parsed(text + (several ? loss_of("a") : "")),
                                {.training = true, .sharing = {.replicas = true}});
    ASSERT_TRUE(net) << net.error().message();
    EXPECT_EQ((*net)->has(Net::Phase::merged), !several);
  }
}

TEST(CaffeStates, rules_ask_for_stages_and_levels) {
  const auto layers = [](const std::string& rule, const std::string& state = "",
                         const std::string& solver = "") {
    const TrainableNet net =
        parsed(state + kCaffeInput +
                   "layer { name: 'x' type: 'ReLU' bottom: 'data' top: 'last' }\n"
                   "layer { name: 'y' type: 'Power' bottom: 'last' top: 'last' " +
                   rule + "}\n" + kCaffeLoss,
               solver.empty() ? "" : solver + " base_lr: 1 lr_policy: 'fixed' max_iter: 1");
    return net.layers.size() - 2;
  };
  EXPECT_EQ(layers("include { stage: 's' }"), 1u);
  EXPECT_EQ(layers("include { stage: 's' }", "state { stage: 's' }\n"), 2u);
  EXPECT_EQ(layers("include { stage: 's' stage: 't' }", "state { stage: 's' }\n"), 1u);
  EXPECT_EQ(layers("include { not_stage: 's' }"), 2u);
  EXPECT_EQ(layers("include { not_stage: 's' }", "state { stage: 's' }\n"), 1u);
  EXPECT_EQ(layers("exclude { stage: 's' }", "state { stage: 's' }\n"), 1u);
  EXPECT_EQ(
      layers("include { stage: 's' }", "", "train_state { stage: 's' } test_state { stage: 's' }"),
      2u);
  EXPECT_EQ(layers("include { min_level: 1 }"), 1u);
  EXPECT_EQ(layers("include { min_level: 1 max_level: 2 }", "state { level: 2 }\n"), 2u);
  EXPECT_EQ(layers("include { max_level: 1 }", "state { level: 2 }\n"), 1u);
}

TEST(CaffeStates, the_command_line_adds_stages_and_sets_the_level) {
  const auto layers = [](const std::string& rule, const ReadOptions& how) {
    return parsed("state { level: 4 }\n" + std::string(kCaffeInput) +
                      "layer { name: 'x' type: 'ReLU' bottom: 'data' top: 'last' }\n"
                      "layer { name: 'y' type: 'Power' bottom: 'last' top: 'last' " +
                      rule + "}\n" + kCaffeLoss,
                  "", how)
               .layers.size() -
           2;
  };
  EXPECT_EQ(layers("include { stage: 's' stage: 't' }", {.stages = {"s"}}), 1u);
  EXPECT_EQ(layers("include { stage: 's' stage: 't' }", {.stages = {"s", "t"}}), 2u);
  EXPECT_EQ(layers("include { min_level: 3 }", {}), 2u);
  EXPECT_EQ(layers("include { min_level: 3 }", {.level = 2}), 1u);
}

TEST(CaffeLayers, curves_maxima_and_other_names) {
  EXPECT_EQ(options_of<CurveOptions>(with_layer("type: 'ELU' elu_param { alpha: 2 }")).parameter,
            2);
  EXPECT_EQ(with_layer("type: 'ELU'").layers[0].type, "activation");
  EXPECT_EQ(options_of<CurveOptions>(with_layer("type: 'AbsVal'")).curve, Curve::absolute);
  EXPECT_EQ(options_of<CurveOptions>(with_layer("type: 'BNLL'")).curve, Curve::softplus);
  const TrainableNet reshaped =
      with_layer("type: 'Reshape' reshape_param { shape { dim: 0 dim: -1 dim: 1 } }");
  EXPECT_EQ(reshaped.layers[0].type, "route");
  const TrainableNet split = parsed(
      std::string(kCaffeInput) +
      "layer { name: 's' type: 'Split' bottom: 'data' top: 'p' top: 'q' }\n"
      "layer { name: 'm' type: 'Eltwise' bottom: 'p' bottom: 'q' bottom: 'data' top: 'last'\n"
      "  eltwise_param { operation: MAX } }\n" +
      kCaffeLoss);
  ASSERT_EQ(split.layers.size(), 6u);
  EXPECT_EQ(split.layers[2].type, "larger");
  EXPECT_EQ(split.layers[3].inputs.front(), "data") << "of equal values the third counts not";
  EXPECT_NE(built(split), nullptr);
}

class CaffeValues : public WithSession {
 protected:
  CaffeValues() : WithSession(with_workers(1)) {}
  // Returns the initial weights of an InnerProduct with 40 outputs of 768 inputs.
  static std::vector<float> weights(const std::string& filler) {
    const auto net = built(with_layer(fmt::format(
        "type: 'InnerProduct' inner_product_param {{ num_output: 40 weight_filler {{ {} }} }}",
        filler)));
    EXPECT_TRUE(net->allocate());
    net->initialise(1);
    for (const Param* param : net->layers()[0]->params()) {
      const HostAccess values(*param->master, HostAccess::Mode::read);
      if (param->role == ParamRole::weights) return {values.f32().begin(), values.f32().end()};
    }
    return {};
  }
  struct Moments {
    double mean = 0, deviation = 0, zeros = 0;
    float least = std::numeric_limits<float>::max(), most = std::numeric_limits<float>::lowest();
  };
  static Moments moments(const std::vector<float>& values) {
    Moments of;
    const auto count = static_cast<double>(values.size());
    for (const float value : values) {
      of.mean += static_cast<double>(value) / count;
      of.zeros += value == 0 ? 1 / count : 0;
      of.least = std::min(of.least, value);
      of.most = std::max(of.most, value);
    }
    for (const float value : values)
      of.deviation += std::pow(static_cast<double>(value) - of.mean, 2) / count;
    of.deviation = std::sqrt(of.deviation);
    return of;
  }
};

TEST_F(CaffeValues, fillers_draw_as_caffe_does) {
  const Moments gaussian = moments(weights("type: 'gaussian' mean: 3 std: 0.5"));
  EXPECT_NEAR(gaussian.mean, 3, 0.02);
  EXPECT_NEAR(gaussian.deviation, 0.5, 0.02);
  const Moments sparse = moments(weights("type: 'gaussian' std: 1 sparse: 10"));
  EXPECT_NEAR(sparse.zeros, 1 - 10.0 / 40, 0.02);
  const Moments uniform = moments(weights("type: 'uniform' min: 1 max: 2"));
  EXPECT_NEAR(uniform.mean, 1.5, 0.02);
  EXPECT_GE(uniform.least, 1);
  EXPECT_LE(uniform.most, 2);
  const auto reach = [](const char* norm) {
    return moments(weights(fmt::format("type: 'xavier' variance_norm: {}", norm))).most;
  };
  EXPECT_NEAR(reach("FAN_IN"), std::sqrt(3.0 / 768), 1e-3);
  EXPECT_NEAR(reach("FAN_OUT"), std::sqrt(3.0 / 40), 1e-3);
  EXPECT_NEAR(reach("AVERAGE"), std::sqrt(6.0 / 808), 1e-3);
  const std::vector<float> shares = weights("type: 'positive_unitball'");
  for (std::size_t row = 0; row < 40; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < 768; ++i) {
      EXPECT_GE(shares[row * 768 + i], 0);
      sum += static_cast<double>(shares[row * 768 + i]);
    }
    EXPECT_NEAR(sum, 1, 1e-5);
  }
}

}  // namespace
}  // namespace omni::test
