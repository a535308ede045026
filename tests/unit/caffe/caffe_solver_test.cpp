// These tests check Caffe's solver files: the learning rate of every iteration by Caffe's formulas,
// the other fields, and a training.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "layers/formats/caffe/caffe.hpp"
#include "runtime/data/augment.hpp"
#include "runtime/data/open.hpp"
#include "runtime/log.hpp"
#include "scheduling/training/rate_policy.hpp"
#include "scheduling/training/training.hpp"
#include "tests/support/deterministic_session.hpp"

namespace omni {
namespace {

Result<TrainableNet> with_solver(const std::string& solver, const ReadOptions& how = {}) {
  const log::Capture unsaid;
  constexpr const char* kNet =
      "layer { name: 'd' type: 'Input' top: 'data' top: 'label'\n"
      "  input_param { shape { dim: 10 dim: 1 dim: 4 dim: 4 } } }\n"
      "layer { name: 'i' type: 'InnerProduct' bottom: 'data' top: 'i'\n"
      "  inner_product_param { num_output: 4 weight_filler { type: 'msra' } } }\n"
      "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'i' bottom: 'label' }\n";
  return parse_caffe_net({kNet, "a.prototxt"}, {solver, "s.prototxt"}, how);
}

TEST(CaffeSolver, rates_are_those_of_caffes_formulas) {
  struct {
    const char* fields;
    std::function<double(int)> rate;  // by Caffe's iteration, which counts from 0
  } const kPolicies[] = {
      {"lr_policy: 'fixed'", [](int) { return 1.0; }},
      {"lr_policy: 'step' gamma: 0.5 stepsize: 3",
       [](int i) { return std::pow(0.5, std::floor(i / 3.0)); }},
      {"lr_policy: 'exp' gamma: 0.9", [](int i) { return std::pow(0.9, i); }},
      {"lr_policy: 'inv' gamma: 0.1 power: 0.75",
       [](int i) { return std::pow(1 + 0.1 * i, -0.75); }},
      {"lr_policy: 'multistep' gamma: 0.1 stepvalue: 4 stepvalue: 7",
       [](int i) { return i < 4   ? 1
                          : i < 7 ? 0.1
                                  : 0.01; }},
      {"lr_policy: 'poly' power: 2", [](int i) { return std::pow(1 - i / 20.0, 2); }},
      {"lr_policy: 'sigmoid' gamma: -0.5 stepsize: 8",
       [](int i) { return 1 / (1 + std::exp(0.5 * (i - 8))); }},
  };
  for (const auto& policy : kPolicies) {
    const auto net = with_solver(fmt::format("base_lr: 0.25 max_iter: 20 {}", policy.fields));
    ASSERT_TRUE(net) << net.error().message();
    for (int i = 0; i < 20; ++i)
      EXPECT_NEAR(learning_rate(net->solver, 1, static_cast<std::uint64_t>(i) + 1),
                  0.25 * policy.rate(i), 1e-7)
          << policy.fields << " at " << i;
  }
}

TEST(CaffeSolver, options_are_read) {
  auto net =
      with_solver("base_lr: 0.5 lr_policy: 'fixed' iter_size: 3 weight_decay: 0.125 max_iter: 9");
  ASSERT_TRUE(net) << net.error().message();
  EXPECT_EQ(net->options.batch, 30) << "iter_size mini-batches of 10";
  EXPECT_EQ(net->options.subdivisions, 3);
  EXPECT_EQ(net->solver.momentum, 0) << "Caffe's default";
  EXPECT_EQ(net->solver.decay, 0.125f);
  EXPECT_FALSE(net->solver.adam);
  for (const char* type : {"type: 'Adam'", "solver_type: ADAM"}) {
    net = with_solver(fmt::format(
        "base_lr: 0.5 lr_policy: 'fixed' momentum: 0.9 momentum2: 0.99 delta: 1e-6 {}", type));
    ASSERT_TRUE(net) << net.error().message();
    EXPECT_TRUE(net->solver.adam);
    EXPECT_EQ(net->solver.momentum, 0.9f);
    EXPECT_EQ(net->solver.square_memory, 0.99f);
    EXPECT_FLOAT_EQ(net->solver.epsilon, 1e-5f) << "of the sum over 10 images";
  }
  ReadOptions how;
  how.named.subdivisions = 2;
  net = with_solver("base_lr: 0.5 lr_policy: 'fixed'", how);
  ASSERT_TRUE(net) << net.error().message();
  EXPECT_EQ(net->options.batch, 10);
  EXPECT_EQ(net->options.subdivisions, 2);
}

TEST(CaffeSolver, the_norm_that_clips_is_of_the_sum_over_iter_size) {
  const auto clip = [](const std::string& field) {
    const auto net = with_solver("base_lr: 0.5 lr_policy: 'fixed' iter_size: 4 " + field);
    EXPECT_TRUE(net) << net.error().message();
    return net->solver.clip_gradients;
  };
  EXPECT_EQ(clip("clip_gradients: 2"), 0.5f);
  EXPECT_EQ(clip("clip_gradients: -1"), 0);
  EXPECT_EQ(clip(""), 0);
}

TEST(CaffeSolver, what_the_command_line_sets_is_known_by_the_options_names) {
  const char* const kSolver = "base_lr: 0.5 lr_policy: 'step' gamma: 0.1 stepsize: 4 max_iter: 9";
  ReadOptions how;
  how.settings = {"max_iter=5"};
  how.named.momentum = 0.5f;
  how.endless = true;  // as with --epochs
  auto net = with_solver(kSolver, how);
  ASSERT_TRUE(net) << net.error().message();
  EXPECT_EQ(net->commanded, (std::set<std::string, std::less<>>{"max_batches", "momentum"}));
  EXPECT_EQ(net->solver.max_batches, 5);
  EXPECT_EQ(net->designed_length, 9u) << "of the file";
  how.learns = false;
  net = with_solver(kSolver, how);
  ASSERT_TRUE(net) << net.error().message();
  EXPECT_EQ(net->solver.learning_rate, 0);
  EXPECT_EQ(net->solver.policy, RatePolicy::constant);
  how.settings = {"base_lr=0.25", "lr_policy=exp"};
  net = with_solver(kSolver, how);
  ASSERT_TRUE(net) << net.error().message();
  EXPECT_EQ(net->solver.learning_rate, 0.25f);
  EXPECT_EQ(net->solver.policy, RatePolicy::exp);
}

TEST(CaffeData, pixels_are_blue_first_less_their_mean) {
  const AugmentOptions options{
      .byte_values = ByteValues{.mean = {10, 20, 30}, .scale = 0.5f, .blue_first = true}};
  const std::vector<std::uint8_t> image{1, 2, 3, 253, 254, 255};
  std::vector<float> seen(6);
  prepare_image(image, {1, 2, 3}, options, 1, 0, false, {1, 2, 3}, seen.data());
  const std::vector<float> wanted{-3.5f, -9, -14.5f, 122.5f, 117, 111.5f};
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(seen[i], wanted[i], 1e-4) << i;
  AugmentOptions vectors = options;
  vectors.flat = true;  // channel by channel
  prepare_image(image, {1, 2, 3}, vectors, 1, 0, false, {1, 1, 6}, seen.data());
  const std::vector<float> planes{-3.5f, 122.5f, -9, 117, -14.5f, 111.5f};
  for (std::size_t i = 0; i < planes.size(); ++i) EXPECT_NEAR(seen[i], planes[i], 1e-4) << i;
  EXPECT_FALSE(keeps_bytes(options, {1, 2, 3}, false, {1, 2, 3}));
  std::vector<std::uint8_t> grey(256);
  for (std::size_t i = 0; i < grey.size(); ++i) grey[i] = static_cast<std::uint8_t>(i);
  std::vector<float> same(256);
  prepare_image(grey, {16, 16, 1}, {.byte_values = ByteValues{.blue_first = true}}, 1, 0, false,
                {16, 16, 1}, same.data());
  for (std::size_t i = 0; i < same.size(); ++i) EXPECT_NEAR(same[i], static_cast<float>(i), 1e-4);
}

class CaffeTraining : public test::DeterministicSession {};

TEST_F(CaffeTraining, lenet_learns) {
  auto net = read_caffe_net(OMNI_SOURCE_DIR "/apps/nets/caffe/lenet_train_test.prototxt",
                            OMNI_SOURCE_DIR "/apps/nets/caffe/lenet_solver.prototxt");
  ASSERT_TRUE(net) << net.error().message();
  auto data = open_dataset(
      {.source = "synthetic:640:10", .net_input = net->options.input, .classes = 10, .seed = 1});
  ASSERT_TRUE(data) << data.error().message();
  TrainingPlan plan{.net = std::move(*net), .groups = {.count = 1}, .data = &*data};
  plan.length = {.iterations = 60, .evaluate_every = 60};
  double accuracy = 0;
  plan.events.on_evaluation = [&](const EvaluationReport& report) {
    accuracy = report.tally.accuracy();
  };
  const auto training = Training::make(std::move(plan), session());
  ASSERT_TRUE(training) << training.error().message();
  const Status done = (*training)->run();
  ASSERT_TRUE(done) << done.error().message();
  const Status evaluated = (*training)->evaluate();
  ASSERT_TRUE(evaluated) << evaluated.error().message();
  EXPECT_GT(accuracy, 0.5) << "chance is 0.1";
}

}  // namespace
}  // namespace omni
