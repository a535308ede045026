// These tests compare the logistic cross-entropy with references, numeric gradients and values
// computed by hand.

#include "codelets/loss/logistic_loss.hpp"
#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::size_t values(const LogisticLossArgs& args) {
  return static_cast<std::size_t>(args.n) * static_cast<std::size_t>(args.inputs);
}

Operation<LogisticLossArgs> operation(Fill fill) {
  return {
      .operands = [fill](const LogisticLossArgs& args) -> std::vector<Operand> {
        std::vector<Operand> operands{
            input(values(args), fill),
            input(static_cast<std::size_t>(args.n), below(static_cast<std::uint32_t>(args.inputs)),
                  DataType::i32),
            output(4)};
        if (args.gradient) operands.push_back(output(values(args)));
        return operands;
      },
      .reference =
          [](const LogisticLossArgs& args, const Buffers& buffers) {
            reference::logistic_loss(args, buffers.get<double>(0), buffers.get<std::int32_t>(1),
                                     buffers.get<double>(2),
                                     args.gradient ? buffers.get<double>(3) : nullptr);
          },
  };
}

const std::vector<Case<LogisticLossArgs>> kLogisticLossCases{
    {"ten classes", {.n = 8, .inputs = 10, .gradient = true}},
    {"evaluation only", {.n = 8, .inputs = 10}},
    {"one output", {.n = 1, .inputs = 1, .gradient = true}},
    {"odd, one image", {.n = 1, .inputs = 17, .gradient = true}},
    {"weighted", {.n = 3, .inputs = 19, .weight = 0.3f, .gradient = true}},
    {"more than a block of logarithms", {.n = 3, .inputs = 1031, .gradient = true}},
};

TEST(LogisticLoss, implementations_agree) {
  check_implementations(logistic_loss, kLogisticLossCases, operation(uniform(-3, 3)));
}

TEST(LogisticLoss, large_values_do_not_overflow) {
  check_implementations(logistic_loss, kLogisticLossCases, operation(uniform(-300, 300)));
  check_implementations(logistic_loss, kLogisticLossCases, operation(uniform(-1e34f, 1e34f)));
}

TEST(LogisticLoss, gradient) {
  LogisticLossArgs args{.n = 3, .inputs = 7, .gradient = true};
  std::vector<double> src = random_values(values(args), 3, uniform(-2, 2)), diff(src.size()),
                      metrics(4);
  const std::vector<std::int32_t> labels{0, 6, 3};
  const auto loss = [&] {
    reference::logistic_loss(args, src.data(), labels.data(), metrics.data(), diff.data());
    return metrics[0];
  };
  loss();
  args.gradient = false;
  check_gradient("inputs", src, diff, loss);
}

TEST(LogisticLoss, hand_computed) {
  const std::vector<double> src{std::log(3.0), 0, std::log(1.0 / 3)};  // p = 0.75, 0.5, 0.25
  const std::vector<std::int32_t> labels{1};
  std::vector<double> diff(3), metrics(4);
  reference::logistic_loss({.n = 1, .inputs = 3, .gradient = true}, src.data(), labels.data(),
                           metrics.data(), diff.data());
  EXPECT_NEAR(metrics[0], -std::log(0.25) - std::log(0.5) - std::log(0.75), 1e-12);
  EXPECT_NEAR(diff[0], 0.75, 1e-12);
  EXPECT_NEAR(diff[1], -0.5, 1e-12);
  EXPECT_NEAR(diff[2], 0.25, 1e-12);
  EXPECT_EQ(metrics[1], 0);
  EXPECT_EQ(metrics[2], 1);
  EXPECT_EQ(metrics[3], 1);
}

std::vector<float> metrics_of(const Implementation<LogisticLossArgs>& implementation,
                              std::vector<float> src, std::vector<std::int32_t> labels,
                              std::vector<float>& diff) {
  std::vector<float> metrics(4);
  diff.assign(src.size(), NAN);
  run_on_values(implementation,
                LogisticLossArgs{.n = static_cast<int>(labels.size()),
                                 .inputs = static_cast<int>(src.size() / labels.size()),
                                 .gradient = true},
                src, labels, metrics, diff);
  return metrics;
}

// The loss stays finite if a probability rounds to 0 or 1. If the answer is right, its tiny loss is
// not lost by adding it to 1.
TEST(LogisticLoss, certain_answers) {
  std::vector<float> diff;
  for (const auto& implementation : implementations_here(logistic_loss)) {
    EXPECT_FLOAT_EQ(metrics_of(implementation, {-100, 200}, {0}, diff)[0], 300);
    EXPECT_NEAR(diff[0], -1, 1e-6);
    EXPECT_NEAR(diff[1], 1, 1e-6);
    const float right = metrics_of(implementation, {30, -30}, {0}, diff)[0];
    EXPECT_NEAR(right / (2 * std::exp(-30.0)), 1, 1e-5) << implementation.name;
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_NEAR(metrics_of(implementation, {infinity, -infinity}, {0}, diff)[0], 0, 1e-30);
  }
}

TEST(LogisticLoss, nan_stays_nan_and_the_label_comes_last) {
  std::vector<float> diff;
  for (const auto& implementation : implementations_here(logistic_loss))
    for (const int where : {0, 1, 18}) {
      std::vector<float> src(20, 1);
      src[static_cast<std::size_t>(where)] = NAN;
      const auto metrics = metrics_of(implementation, src, {0}, diff);
      EXPECT_TRUE(std::isnan(metrics[0])) << implementation.name << where;
      if (where == 0) {
        EXPECT_EQ(metrics[1] + metrics[2], 0);
      }
      EXPECT_TRUE(std::isnan(diff[static_cast<std::size_t>(where)])) << implementation.name;
    }
}

TEST(LogisticLoss, place_without_image_counts_nothing) {
  std::vector<float> diff;
  for (const auto& implementation : implementations_here(logistic_loss)) {
    const auto metrics = metrics_of(implementation, {5, 6, 7, 0, 1, 0}, {kNoLabel, 1}, diff);
    EXPECT_NEAR(metrics[0], 2 * std::log(2.0) + std::log1p(std::exp(-1.0)), 1e-6);
    EXPECT_EQ(metrics[1], 1);
    EXPECT_EQ(metrics[3], 1);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(diff[i], 0);
    EXPECT_NEAR(diff[3], 0.5, 1e-6);
  }
}

TEST(LogisticLoss, a_label_out_of_range_is_refused) {
  std::vector<float> diff;
  for (const auto& implementation : implementations_here(logistic_loss))
    if (implementation.role == Role::gpu) {  // it has nobody to tell
      EXPECT_TRUE(std::isnan(metrics_of(implementation, {0, 0, 0}, {3}, diff)[0]));
    } else {
      EXPECT_THROW(metrics_of(implementation, {0, 0, 0}, {3}, diff), std::runtime_error);
    }
}

}  // namespace
}  // namespace omni::gradcheck
