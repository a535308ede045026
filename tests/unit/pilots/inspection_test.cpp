// These tests check that an inspection sees each layer's outputs and gradients, and changes nothing
// in the training.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "scheduling/pilots/health/health_check.hpp"
#include "scheduling/strategies/registry.hpp"
#include "tests/support/deterministic_session.hpp"
#include "tests/support/group_training.hpp"
#include "tests/support/net_text.hpp"

namespace omni {
namespace {

// This net has batch statistics, dropout masks, a residual sum, and a pooling layer that takes over
// relu's gradient. Its large connected layer is updated in the backward pass.
const std::string kEverything =
    test::net(6, {16, 16, 1}, "learning_rate=0.02\nmomentum=0.9\ndecay=0.01\n") +
    test::convolutional(4, "leaky", "pad=1\nbatch_normalize=1\n") +
    test::convolutional(4, "linear", "pad=1\nbatch_normalize=1\n") +
    test::layer("shortcut", "from=-2\nactivation=relu\n") + test::convolutional(4, "relu") +
    test::layer("maxpool", "size=2\n") + test::layer("dropout", "probability=0.3\n") +
    test::connected(4100, "relu") + test::layer("dropout") + test::connected(3) +
    test::layer("softmax");

// No layer of this net joins its slices, so each group has its own replica of the first layers.
const std::string kPlain = test::net(8, {8, 8, 1}, "learning_rate=0.02\nmomentum=0.9\n") +
                           test::convolutional(4, "relu") + test::connected(12, "relu") +
                           test::connected(3) + test::layer("softmax");

std::string with(const std::string& cfg, const std::string& options) {
  return std::string(cfg).insert(std::string("[net]\n").size(), options);
}

class Inspecting : public test::DeterministicSession {
 protected:
  using Run = test::GroupTraining;

  static std::vector<std::vector<float>> everything_of(Run& run) {
    std::vector<std::vector<float>> all;
    for (int group = 0; group < run.groups.count(); ++group)
      for (const Param* param : run.groups.net(group).params()) {
        std::vector<const Tensor*> tensors{param->master,   param->replica,     param->diff,
                                           param->velocity, param->mean_square, param->change};
        tensors.insert(tensors.end(), param->partial_diffs.begin(), param->partial_diffs.end());
        for (const Tensor* each : tensors)
          if (each != nullptr) all.push_back(test::values(*each));
      }
    return all;
  }

  // Trains once with inspections after 1, 2, 4 ... iterations and once without, and expects the
  // same bits.
  static void expect_equal_bits(const std::function<std::unique_ptr<Run>()>& make,
                                const std::function<TrainerOptions()>& options) {
    const auto plain = make(), inspected = make();
    HealthCheck health({.first = 1, .usual = 1, .stuck = 1000});
    plain->train(options());
    inspected->pilots = {&health};
    inspected->train(options());
    EXPECT_FALSE(health.failure());
    EXPECT_GE(health.inspections(), 1);
    EXPECT_EQ(everything_of(*inspected), everything_of(*plain));
    ASSERT_EQ(inspected->reports.size(), plain->reports.size());
    for (std::size_t i = 0; i < plain->reports.size(); ++i)
      EXPECT_EQ(inspected->reports[i].loss, plain->reports[i].loss) << i;
  }

  static Inspection look_into(Run& run) {
    auto found = inspect(run.groups.net(), *run.feed, 1, 0);
    EXPECT_TRUE(found);
    return std::move(*found);
  }
};

TEST_F(Inspecting, changes_no_bit_of_a_training) {
  for (const char* solver : {"", "adam=1\n", "subdivisions=2\n"})
    for (const bool in_backward : {false, true}) {
      SCOPED_TRACE(std::string(solver) + (in_backward ? "in backward" : ""));
      expect_equal_bits(
          [&] {
            return std::make_unique<Run>(with(kEverything, solver), 1, FullyConnected::merged,
                                         BuildOptions{.update_in_backward = in_backward});
          },
          [] { return TrainerOptions{.iterations = 10}; });
    }
}

TEST_F(Inspecting, changes_no_bit_of_a_training_in_groups) {
  for (const int groups : {2, 3})
    expect_equal_bits([&] { return std::make_unique<Run>(kEverything, groups); },
                      [] {
                        return TrainerOptions{.iterations = 12,
                                              .strategy = async(Asynchrony::reproducible)};
                      });
}

TEST_F(Inspecting, changes_no_bit_of_any_strategy) {
  for (const char* name : {"sma", "local", "elastic", "hogbatch"}) {
    SCOPED_TRACE(name);
    const StrategyType& type = **find_strategy(name);
    StrategyOptions how;
    how.in_order = true;
    how.own.by_name["--sync-every"].number = 2;
    if (type.sizes != nullptr) how.group_batches = {{4, 2, 8}, {8, 2, 8}};
    const std::vector<int> passes =
        type.sizes != nullptr ? std::vector<int>{2, 2} : std::vector<int>();
    const Sharing sharing{.replicas = true,
                          .own_models = type.models == GroupModels::own,
                          .fully_connected = FullyConnected::replicated};
    expect_equal_bits(
        [&] { return std::make_unique<Run>(kPlain, 2, sharing, BuildOptions(), passes); },
        [&] { return TrainerOptions{.iterations = 24, .strategy = make_strategy(type, how)}; });
  }
}

// Without decay, the first velocity equals the gradient.
TEST_F(Inspecting, sees_the_gradient_of_the_next_update) {
  for (const bool in_backward : {false, true}) {
    std::string cfg = kEverything;
    cfg.erase(cfg.find("decay=0.01\n"), std::string("decay=0.01").size());
    Run run(with(cfg, "decay=0\n"), 1, FullyConnected::merged, {.update_in_backward = in_backward});
    const Inspection found = look_into(run);
    run.train({.iterations = 1});
    for (const InspectedLayer& layer : found.layers) {
      double sum = 0;
      bool bound = false;
      for (const Param* param : layer.layer->params()) {
        bound = bound || param->updated_in_backward;
        if (!param->trainable) continue;
        for (const float each : test::values(*param->velocity))
          sum += static_cast<double>(each) * static_cast<double>(each);
      }
      const double length = std::sqrt(sum);
      EXPECT_EQ(layer.learns, sum > 0) << layer.layer->index();
      EXPECT_GE(layer.gradient, 0.999 * length) << layer.layer->index();
      EXPECT_LE(layer.gradient, (bound ? 20 : 2) * length) << layer.layer->index();
    }
  }
}

TEST_F(Inspecting, names_the_layer_that_gives_the_same_for_all) {
  Run run(kPlain);
  EXPECT_FALSE(look_into(run).finds_something());
  Param& bias = *run.groups.net().layers()[1]->params()[0];
  ASSERT_NE(bias.name.find("bias"), std::string::npos);
  test::set(*bias.master, std::vector<float>(12, -100));
  const Inspection found = look_into(run);
  EXPECT_GE(found.samples, 128u) << "one mini-batch is not enough to be sure";
  const auto finding = diagnose(found, {.rate = 0.02, .momentum = 0.9}, LossIs::at_chance);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->kind, FindingKind::same_output);
  EXPECT_EQ(finding->layer, 1);
  EXPECT_TRUE(finding->sure);
  EXPECT_EQ(finding->where, "net.cfg:13");
  EXPECT_NE(finding->what.find("layer 1 [connected]"), std::string::npos) << finding->what;
  EXPECT_NE(finding->remedy.find("learning_rate by 10"), std::string::npos) << finding->remedy;
}

TEST_F(Inspecting, tells_steps_that_are_too_small) {
  Run run(kPlain);
  const Inspection found = look_into(run);
  EXPECT_FALSE(diagnose(found, {.rate = 1e-3}, LossIs::at_chance));
  const auto small = diagnose(found, {.rate = 1e-12}, LossIs::at_chance);
  ASSERT_TRUE(small);
  EXPECT_EQ(small->kind, FindingKind::small_steps);
  EXPECT_TRUE(small->sure);
  const auto none = diagnose(found, {.rate = 0}, LossIs::at_chance);
  ASSERT_TRUE(none);
  EXPECT_NE(none->what.find("learning rate is 0"), std::string::npos);
  EXPECT_FALSE(diagnose(found, {.rate = 1e-12}, LossIs::low)) << "nothing is left to learn";
}

TEST_F(Inspecting, tells_gradients_that_vanish) {
  std::string cfg = "[net]\nbatch=8\nheight=4\nwidth=4\nchannels=1\nlearning_rate=0.01\n";
  for (int layer = 0; layer < 8; ++layer)
    cfg += "[connected]\noutput=16\nactivation=logistic\nweights_std=0.05\n";
  Run run(cfg + "[connected]\noutput=3\nactivation=linear\n[softmax]\n");
  const auto finding = diagnose(look_into(run), {.rate = 0.01, .momentum = 0.9}, LossIs::at_chance);
  ASSERT_TRUE(finding);
  EXPECT_TRUE(finding->kind == FindingKind::no_gradient ||
              finding->kind == FindingKind::same_output);
  EXPECT_GE(finding->layer, 0);
  EXPECT_NE(finding->remedy.find("batch_normalize"), std::string::npos);
}

}  // namespace
}  // namespace omni
