// These tests compare the losses of predictions and targets with references, numeric gradients and
// values computed by hand.

#include "codelets/loss/target_loss.hpp"
#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::size_t values(const TargetLossArgs& args) {
  return static_cast<std::size_t>(args.n) * static_cast<std::size_t>(args.inputs);
}

// Labels are -1 to 3: some places have no image.
Operation<TargetLossArgs> operation() {
  return {
      .operands = [](const TargetLossArgs& args) -> std::vector<Operand> {
        std::vector<Operand> operands{
            input(values(args), uniform(-3, 3)),
            input(
                static_cast<std::size_t>(args.n),
                [](Draws& draws) { return static_cast<float>(draws.below(5)) - 1; }, DataType::i32),
            output(4)};
        if (!args.of_labels) operands.push_back(input(values(args), uniform(0, 1)));
        if (args.gradient) operands.push_back(output(values(args)));
        if (args.target_gradient) operands.push_back(output(values(args)));
        return operands;
      },
      .reference =
          [](const TargetLossArgs& args, const Buffers& buffers) {
            const auto any = [&](std::size_t number) {
              return number < buffers.count() ? buffers.get<double>(number) : nullptr;
            };
            reference::target_loss(args, buffers.get<double>(0), buffers.get<std::int32_t>(1),
                                   buffers.get<double>(2), any(3), any(4), any(5));
          },
  };
}

TEST(TargetLoss, implementations_agree) {
  for (const bool logistic : {false, true}) {
    SCOPED_TRACE(logistic);
    std::vector<Case<TargetLossArgs>> cases{
        {"evaluation only", {.n = 8, .inputs = 10}},
        {"both gradients", {.n = 5, .inputs = 33, .gradient = true, .target_gradient = true}},
        {"one value", {.n = 1, .inputs = 1, .weight = 0.3f, .gradient = true}},
        {"of the target alone", {.n = 3, .inputs = 7, .weight = 2, .target_gradient = true}},
        {"labels", {.n = 9, .inputs = 1, .of_labels = true, .gradient = true}},
        {"an image and a vector",
         {.n = 3, .inputs = 35, .columns = 5, .gradient = true, .target_gradient = true}},
        {"many values", {.n = 2, .inputs = 3001, .weight = 0.01f, .gradient = true}}};
    for (auto& each : cases) each.args.logistic = logistic;
    check_implementations(target_loss, cases, operation());
  }
}

TEST(TargetLoss, gradients) {
  for (const bool logistic : {false, true})
    for (const int columns : {1, 3}) {
      SCOPED_TRACE(logistic);
      TargetLossArgs args{.n = 3,
                          .inputs = 6,
                          .logistic = logistic,
                          .weight = 0.5f,
                          .columns = columns,
                          .gradient = true,
                          .target_gradient = true};
      std::vector<double> src = random_values(values(args), 3, uniform(-2, 2)),
                          target = random_values(values(args), 4, uniform(0, 1)), diff(src.size()),
                          target_diff(src.size()), metrics(4);
      const std::vector<std::int32_t> labels{0, -1, 3};
      const auto loss = [&] {
        reference::target_loss(args, src.data(), labels.data(), metrics.data(), target.data(),
                               diff.data(), target_diff.data());
        return metrics[0];
      };
      loss();
      args.gradient = args.target_gradient = false;
      check_gradient("predictions", src, diff, loss);
      check_gradient("targets", target, target_diff, loss);
    }
}

TEST(TargetLoss, hand_computed) {
  const std::vector<double> src{0.5, -2, 3, 9};
  std::vector<double> target{1, 1, 0, 0}, diff(4), target_diff(4), metrics(4);
  const std::vector<std::int32_t> labels{7, -1};  // the second place has no image
  reference::target_loss(
      {.n = 2, .inputs = 2, .weight = 2, .gradient = true, .target_gradient = true}, src.data(),
      labels.data(), metrics.data(), target.data(), diff.data(), target_diff.data());
  EXPECT_EQ(diff, (std::vector<double>{-1, -6, 0, 0}));
  EXPECT_EQ(target_diff, (std::vector<double>{1, 6, 0, 0}));
  EXPECT_EQ(metrics, (std::vector<double>{0.25 + 9, 0, 0, 1}));
  // The label is the target.
  reference::target_loss<double>({.n = 2, .inputs = 1, .of_labels = true, .gradient = true},
                                 src.data(), labels.data(), metrics.data(), diff.data(), nullptr,
                                 nullptr);
  EXPECT_EQ(diff[0], -6.5);
  EXPECT_EQ(metrics[0], 6.5 * 6.5 / 2);
}

// The loss has the values of Caffe's formula, and stays finite where probabilities round to 0 or 1.
TEST(TargetLoss, logistic_hand_computed) {
  const std::vector<double> src{1.5, -800};
  std::vector<double> target{0.25, 1}, diff(2), metrics(4);
  const std::vector<std::int32_t> labels{0};
  reference::target_loss<double>({.n = 1, .inputs = 2, .logistic = true, .gradient = true},
                                 src.data(), labels.data(), metrics.data(), target.data(),
                                 diff.data(), nullptr);
  const double p = 1 / (1 + std::exp(-1.5));
  EXPECT_NEAR(metrics[0], -0.25 * std::log(p) - 0.75 * std::log(1 - p) + 800, 1e-12);
  EXPECT_NEAR(diff[0], p - 0.25, 1e-15);
  EXPECT_EQ(diff[1], -1);
}

// With 3 columns, the prediction has 2 pixels of 3 channels; the target has them by channel.
TEST(TargetLoss, an_image_is_compared_with_a_vector_by_channel) {
  std::vector<double> src{0, 1, 2, 10, 11, 12}, target{0, 10, 1, 11, 2, 12}, metrics(4);
  const std::vector<std::int32_t> labels{0};
  reference::target_loss<double>({.n = 1, .inputs = 6, .columns = 3}, src.data(), labels.data(),
                                 metrics.data(), target.data(), nullptr, nullptr);
  EXPECT_EQ(metrics[0], 0);
}

}  // namespace
}  // namespace omni::gradcheck
