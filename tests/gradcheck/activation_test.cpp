#include "codelets/elementwise/activation.hpp"

#include <algorithm>
#include <limits>

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

const std::vector<Activation> kAll = [] {
  std::vector<Activation> all;
  for (std::size_t i = 0; i < kActivationNames.size(); ++i)
    all.push_back(static_cast<Activation>(i));
  return all;
}();

std::size_t values(const ActivationArgs& args) { return static_cast<std::size_t>(args.count); }

std::vector<Case<ActivationArgs>> cases() {
  std::vector<Case<ActivationArgs>> all;
  for (const Activation each : kAll)
    for (const std::int64_t count : {1, 3, 16, 1001})
      all.push_back({activation_name(each).data(), {.count = count, .activation = each}});
  return all;
}

// Returns values between whole numbers, because all kinks of the activations are at whole numbers.
Fill between_whole_numbers() {
  return [](Draws& draws) {
    const auto whole = static_cast<float>(draws.below(16));
    return whole - 8 + draws.uniform(0.1f, 0.9f);
  };
}

template <class T>
T value_of(Activation activation, T x) {
  return with_activation(activation, [=](auto f) { return f(x); });
}

template <class T>
T gradient_of(Activation activation, T value) {
  return with_activation(activation, [=](auto f) { return f.gradient(value); });
}

TEST(Activation, implementations_agree) {
  for (const Fill& fill : {uniform(-8, 8), uniform(-1e-3f, 1e-3f), uniform(-200, 200)})
    check_implementations(activation_forward, cases(),
                          {.operands = [fill](const ActivationArgs& args) -> std::vector<Operand> {
                             return {input(values(args), fill), output(values(args))};
                           },
                           .reference =
                               [](const ActivationArgs& args, const Buffers& buffers) {
                                 reference::activation_forward(args, buffers.get<double>(0),
                                                               buffers.get<double>(1));
                               }});
  check_implementations(
      activation_backward, cases(),
      {.operands = [](const ActivationArgs& args) -> std::vector<Operand> {
         // Small cases use values from -0.5 on, where gradients do not cross zero. With few values,
         // a relative error near zero would be too large.
         const float least = args.count < 16 ? -0.5f : -1.5f;
         return {input(values(args), uniform(least, 1.5f)), in_place(values(args))};
       },
       .reference =
           [](const ActivationArgs& args, const Buffers& buffers) {
             reference::activation_backward(args, buffers.get<double>(0), buffers.get<double>(1));
           }});
}

TEST(Activation, gradient_from_the_output_or_the_input) {
  for (const Activation each : kAll) {
    SCOPED_TRACE(activation_name(each));
    const ActivationArgs args{.count = 90, .activation = each};
    std::vector<double> src = random_values(values(args), 1, between_whole_numbers());
    const std::vector<double> diff_dst = random_values(values(args), 2);
    std::vector<double> dst(src.size()), diff = diff_dst;
    const auto loss = [&] {
      reference::activation_forward(args, src.data(), dst.data());
      return dot(dst, diff_dst);
    };
    loss();
    reference::activation_backward(args, gradient_needs_input(each) ? src.data() : dst.data(),
                                   diff.data());
    check_gradient("src", src, diff, loss);
  }
}

TEST(Activation, hand_computed) {
  struct Row {
    const char* name;
    double at_minus_2, at_half, at_5;
  };
  const double e = std::exp(1.0), root = std::sqrt(2 / std::acos(-1.0));
  const std::vector<Row> rows{
      {"linear", -2, 0.5, 5},
      {"relu", 0, 0.5, 5},
      {"leaky", -0.2, 0.5, 5},
      {"relie", -0.02, 0.5, 5},
      {"ramp", -0.2, 0.55, 5.5},
      {"logistic", 1 / (1 + e * e), 1 / (1 + std::exp(-0.5)), 1 / (1 + std::exp(-5))},
      {"loggy", 2 / (1 + e * e) - 1, 2 / (1 + std::exp(-0.5)) - 1, 2 / (1 + std::exp(-5)) - 1},
      {"tanh", std::tanh(-2), std::tanh(0.5), std::tanh(5)},
      {"elu", std::exp(-2) - 1, 0.5, 5},
      {"selu", 1.0507009874 * 1.6732632424 * (std::exp(-2) - 1), 1.0507009874 * 0.5,
       1.0507009874 * 5},
      {"plse", 0.25, 0.5625, 1.01},
      {"stair", -1, 0, 2},
      {"hardtan", -1, 0.5, 1},
      {"lhtan", -0.002, 0.5, 1.004},
      {"swish", -2 / (1 + e * e), 0.5 / (1 + std::exp(-0.5)), 5 / (1 + std::exp(-5))},
      {"mish", -2 * std::tanh(std::log(1 + std::exp(-2))),
       0.5 * std::tanh(std::log(1 + std::exp(0.5))), 5 * std::tanh(std::log(1 + std::exp(5)))},
      {"hard_mish", 0, 0.5, 5},
      {"gelu", -1 - std::tanh(root * (-2 + 0.044715 * -8)),
       0.25 * (1 + std::tanh(root * (0.5 + 0.044715 * 0.125))),
       2.5 * (1 + std::tanh(root * (5 + 0.044715 * 125)))},
      {"relu6", 0, 0.5, 5}};
  ASSERT_EQ(rows.size(), kAll.size());
  for (const Row& row : rows) {
    const auto place = std::ranges::find(kActivationNames, row.name);
    ASSERT_NE(place, kActivationNames.end()) << row.name;
    const auto activation = static_cast<Activation>(place - kActivationNames.begin());
    EXPECT_EQ(activation_name(activation), row.name);
    EXPECT_NEAR(value_of(activation, -2.0), row.at_minus_2, 1e-8) << row.name;
    EXPECT_NEAR(value_of(activation, 0.5), row.at_half, 1e-8) << row.name;
    EXPECT_NEAR(value_of(activation, 5.0), row.at_5, 1e-8) << row.name;
  }
  EXPECT_EQ(value_of(Activation::hard_mish, -1.0), -0.5);
  EXPECT_EQ(value_of(Activation::relu6, 7.0), 6);
}

TEST(Activation, extremes_stay_finite_and_nan_stays_nan) {
  for (const Activation each : kAll) {
    SCOPED_TRACE(activation_name(each));
    for (const float x : {-3e38f, -1e4f, -100.0f, -87.5f, -1e-38f, -0.0f, 1e-38f, 88.5f, 1e4f}) {
      EXPECT_TRUE(std::isfinite(value_of(each, x))) << x;
      EXPECT_TRUE(!gradient_needs_input(each) || std::isfinite(gradient_of(each, x))) << x;
    }
    EXPECT_TRUE(std::isnan(value_of(each, std::numeric_limits<float>::quiet_NaN())))
        << "a diverged net must be seen";
    EXPECT_TRUE(std::isnan(value_of(each, std::numeric_limits<double>::quiet_NaN())));
  }
  EXPECT_EQ(value_of(Activation::tanh, INFINITY), 1);
  EXPECT_EQ(value_of(Activation::tanh, -INFINITY), -1);
  EXPECT_EQ(value_of(Activation::logistic, INFINITY), 1);
  EXPECT_NEAR(value_of(Activation::logistic, -INFINITY), 0, 1e-37);
  for (const Activation each : {Activation::swish, Activation::mish, Activation::gelu}) {
    EXPECT_NEAR(value_of(each, -INFINITY), 0, 1e-30) << activation_name(each);
    EXPECT_EQ(value_of(each, INFINITY), INFINITY) << activation_name(each);
    EXPECT_NEAR(gradient_of(each, -1e30f), 0, 1e-30) << activation_name(each);
    EXPECT_EQ(gradient_of(each, 1e30f), 1) << activation_name(each);
  }
}

// The test compares our polynomial for floats with the C library's expm1.
TEST(Activation, exponential_is_exact_to_a_few_ulp) {
  for (int i = -8700; i <= 8800; ++i) {
    const float x = static_cast<float>(i) * 0.01f;
    const double expected = std::expm1(static_cast<double>(x));
    EXPECT_NEAR(static_cast<double>(activations::exp_minus_one(x)), expected,
                4e-7 * std::abs(expected))
        << x;
  }
  for (float x = 1e-30f; x < 1; x *= 3) {
    const double expected = std::expm1(-static_cast<double>(x));
    EXPECT_NEAR(static_cast<double>(activations::exp_minus_one(-x)), expected,
                4e-7 * std::abs(expected))
        << x;
  }
}

TEST(Activation, in_place) {
  std::vector<float> x{-2, 3, -4};
  activate(Activation::leaky, x.data(), x.size());
  EXPECT_FLOAT_EQ(x[0], -0.2f);
  EXPECT_EQ(x[1], 3);
  activate(Activation::linear, x.data(), x.size());
  EXPECT_FLOAT_EQ(x[2], -0.4f);
}

}  // namespace
}  // namespace omni::gradcheck
