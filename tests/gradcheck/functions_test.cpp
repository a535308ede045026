// These tests compare functions that have numbers of their layer with references, numeric gradients
// and values computed by hand.
#include "codelets/functions/curve.hpp"
#include "codelets/functions/larger.hpp"
#include "codelets/functions/power.hpp"
#include "codelets/functions/prelu.hpp"
#include "codelets/functions/product.hpp"
#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::size_t values(const PReluArgs& args) { return size(args.rows * args.c); }

const std::vector<Case<PReluArgs>> kPReluCases{
    {"usual", {.rows = 49, .c = 64}},
    {"one value", {.rows = 1, .c = 1}},
    {"shared by all channels", {.rows = 4099, .c = 1}},
    {"less than a vector", {.rows = 37, .c = 1}},
    {"one row", {.rows = 1, .c = 131}},
    {"odd", {.rows = 13, .c = 67}},
    {"a constant", {.rows = 1000, .c = 3, .learned = false, .slope = 0.3f}},
    {"a constant below 0", {.rows = 65, .c = 1, .learned = false, .slope = -0.5f}},
};

// Adds the slopes, if there are any, as the last operand.
std::vector<Operand> with_slopes(const PReluArgs& args, std::vector<Operand> operands) {
  if (args.learned) operands.push_back(input(size(args.c)));
  return operands;
}
const double* slopes_in(const PReluArgs& args, const Buffers& buffers, std::size_t at) {
  return args.learned ? buffers.get<double>(at) : nullptr;
}

TEST(PRelu, implementations_agree) {
  const Fill src = away_from_zero(0.1f);
  check_implementations(
      prelu_forward, kPReluCases,
      {.operands =
           [=](const PReluArgs& args) {
             return with_slopes(args, {input(values(args), src), output(values(args))});
           },
       .reference =
           [](const PReluArgs& args, const Buffers& b) {
             reference::prelu_forward(args, b.get<double>(0), b.get<double>(1),
                                      slopes_in(args, b, 2));
           }});
  check_implementations(
      prelu_backward, kPReluCases,
      {.operands =
           [=](const PReluArgs& args) {
             return with_slopes(
                 args, {input(values(args), src), input(values(args)), output(values(args))});
           },
       .reference =
           [](const PReluArgs& args, const Buffers& b) {
             reference::prelu_backward(args, b.get<double>(0), b.get<double>(1), b.get<double>(2),
                                       slopes_in(args, b, 3));
           }});
  std::vector<Case<PReluArgs>> learned = kPReluCases;
  std::erase_if(learned, [](const auto& each) { return !each.args.learned; });
  check_implementations(
      prelu_backward_slopes, learned,
      {.operands =
           [=](const PReluArgs& args) {
             return std::vector<Operand>{input(values(args), src), input(values(args)),
                                         accumulated(size(args.c))};
           },
       .reference =
           [](const PReluArgs& args, const Buffers& b) {
             reference::prelu_backward_slopes(args, b.get<double>(0), b.get<double>(1),
                                              b.get<double>(2));
           },
       .terms = [](const PReluArgs& args) { return static_cast<double>(args.rows); }});
}

TEST(PRelu, gradient) {
  for (const auto& [what, args] : kPReluCases) {
    SCOPED_TRACE(what);
    std::vector<double> src = random_values(values(args), 1, away_from_zero(0.1f)),
                        slopes = random_values(size(args.c), 2), dst(src.size()),
                        diff_src(src.size()), diff_slopes(slopes.size());
    const std::vector<double> diff_dst = random_values(src.size(), 3);
    const auto loss = [&, &args = args] {
      reference::prelu_forward(args, src.data(), dst.data(), slopes.data());
      return dot(dst, diff_dst);
    };
    reference::prelu_backward(args, src.data(), diff_dst.data(), diff_src.data(), slopes.data());
    check_gradient("src", src, diff_src, loss);
    if (!args.learned) continue;
    reference::prelu_backward_slopes(args, src.data(), diff_dst.data(), diff_slopes.data());
    check_gradient("slopes", slopes, diff_slopes, loss);
  }
}

TEST(PRelu, hand_computed_and_keeps_nan) {
  const std::vector<double> src{1, -2, -3, 0, NAN, 4}, slopes{0.5, 10};
  std::vector<double> dst(6), diff_slopes(2);
  reference::prelu_forward({.rows = 3, .c = 2}, src.data(), dst.data(), slopes.data());
  EXPECT_EQ(dst[0], 1);
  EXPECT_EQ(dst[1], -20);
  EXPECT_EQ(dst[2], -1.5);
  EXPECT_EQ(dst[3], 0);
  EXPECT_TRUE(std::isnan(dst[4]));
  EXPECT_EQ(dst[5], 4);
  const std::vector<double> ones(4, 1.0);
  reference::prelu_backward_slopes({.rows = 2, .c = 2}, src.data(), ones.data(),
                                   diff_slopes.data());
  EXPECT_EQ(diff_slopes, (std::vector<double>{-3, -2}));
}

const std::vector<Case<PowerArgs>> kPowerCases{
    {"a line", {.count = 1000, .scale = 0.5f, .shift = -3}},
    {"one value", {.count = 1}},
    {"a square", {.count = 133, .power = 2, .scale = -2, .shift = 1}},
    {"a cube", {.count = 67, .power = 3, .scale = 0.5f, .shift = 0.1f}},
    {"a root", {.count = 257, .power = 0.5f, .scale = 0.3f, .shift = 1}},
    {"an inverse", {.count = 31, .power = -1.5f, .scale = 0.4f, .shift = 2}},
    {"a constant", {.count = 40, .power = 0}},
    {"another constant", {.count = 40, .power = 3, .scale = 0, .shift = 2}},
};

TEST(Power, implementations_agree) {
  check_implementations(power_forward, kPowerCases,
                        {.operands =
                             [](const PowerArgs& args) {
                               return std::vector<Operand>{
                                   input(size(args.count), away_from_zero(0.1f)),
                                   output(size(args.count))};
                             },
                         .reference =
                             [](const PowerArgs& args, const Buffers& b) {
                               reference::power_forward(args, b.get<double>(0), b.get<double>(1));
                             }});
  check_implementations(
      power_backward, kPowerCases,
      {.operands =
           [](const PowerArgs& args) {
             return std::vector<Operand>{input(size(args.count), away_from_zero(0.1f)),
                                         input(size(args.count)), output(size(args.count))};
           },
       .reference =
           [](const PowerArgs& args, const Buffers& b) {
             reference::power_backward(args, b.get<double>(0), b.get<double>(1), b.get<double>(2));
           }});
}

TEST(Power, gradient) {
  for (const auto& [what, args] : kPowerCases) {
    SCOPED_TRACE(what);
    std::vector<double> src = random_values(size(args.count), 1, away_from_zero(0.1f)),
                        dst(src.size()), diff_src(src.size());
    const std::vector<double> diff_dst = random_values(src.size(), 2);
    reference::power_backward(args, src.data(), diff_dst.data(), diff_src.data());
    check_gradient("src", src, diff_src, [&, &args = args] {
      reference::power_forward(args, src.data(), dst.data());
      return dot(dst, diff_dst);
    });
  }
}

TEST(Power, hand_computed) {
  const std::vector<double> src{2, -1, 0}, ones{1, 1, 1};
  std::vector<double> dst(3);
  reference::power_forward({.count = 3, .power = 2, .scale = 3, .shift = 1}, src.data(),
                           dst.data());
  EXPECT_EQ(dst, (std::vector<double>{49, 4, 1}));
  reference::power_backward({.count = 3, .power = 2, .scale = 3, .shift = 1}, src.data(),
                            ones.data(), dst.data());
  EXPECT_EQ(dst, (std::vector<double>{42, -12, 6}));
  reference::power_backward({.count = 3, .power = 0}, src.data(), ones.data(), dst.data());
  EXPECT_EQ(dst, (std::vector<double>{0, 0, 0})) << "even at 0";
}

const std::vector<Case<CurveArgs>> kCurveCases{
    {"elu", {.count = 1000, .curve = Curve::elu, .parameter = 0.3f}},
    {"one value", {.count = 1, .curve = Curve::elu, .parameter = 2}},
    {"elu that rises below 0", {.count = 67, .curve = Curve::elu, .parameter = -1.5f}},
    {"absolute", {.count = 133, .curve = Curve::absolute}},
    {"softplus", {.count = 259, .curve = Curve::softplus}},
};

TEST(Curve, implementations_agree) {
  const Fill src = away_from_zero(0.1f);
  check_implementations(
      curve_forward, kCurveCases,
      {.operands =
           [=](const CurveArgs& args) {
             return std::vector<Operand>{input(size(args.count), src), output(size(args.count))};
           },
       .reference =
           [](const CurveArgs& args, const Buffers& b) {
             reference::curve_forward(args, b.get<double>(0), b.get<double>(1));
           }});
  check_implementations(
      curve_backward, kCurveCases,
      {.operands =
           [=](const CurveArgs& args) {
             return std::vector<Operand>{input(size(args.count), src), input(size(args.count)),
                                         output(size(args.count))};
           },
       .reference =
           [](const CurveArgs& args, const Buffers& b) {
             reference::curve_backward(args, b.get<double>(0), b.get<double>(1), b.get<double>(2));
           }});
}

TEST(Curve, gradient) {
  for (const auto& [what, args] : kCurveCases) {
    SCOPED_TRACE(what);
    std::vector<double> src = random_values(size(args.count), 1, away_from_zero(0.1f)),
                        dst(src.size()), diff_src(src.size());
    const std::vector<double> diff_dst = random_values(src.size(), 2);
    reference::curve_backward(args, src.data(), diff_dst.data(), diff_src.data());
    check_gradient("src", src, diff_src, [&, &args = args] {
      reference::curve_forward(args, src.data(), dst.data());
      return dot(dst, diff_dst);
    });
  }
}

TEST(Curve, hand_computed_and_large) {
  const std::vector<double> src{2, -1, 0, 800, -800};
  std::vector<double> dst(5);
  const auto values = [&](Curve curve) {
    reference::curve_forward({.count = 5, .curve = curve, .parameter = 3}, src.data(), dst.data());
    return dst;
  };
  EXPECT_EQ(values(Curve::absolute), (std::vector<double>{2, 1, 0, 800, 800}));
  EXPECT_EQ(values(Curve::elu)[0], 2);
  EXPECT_NEAR(dst[1], 3 * (std::exp(-1.0) - 1), 1e-12);
  EXPECT_NEAR(dst[4], -3, 1e-12);
  EXPECT_NEAR(values(Curve::softplus)[2], std::log(2.0), 1e-12);
  EXPECT_EQ(dst[3], 800) << "no overflow";
  EXPECT_EQ(dst[4], 0);
}

const std::vector<Case<LargerArgs>> kLargerCases{{"usual", {.count = 4096}},
                                                 {"one value", {.count = 1}},
                                                 {"odd", {.count = 1037, .of_first = false}}};

// Some values are equal.
TEST(Larger, implementations_agree) {
  check_implementations(larger_forward, kLargerCases,
                        {.operands =
                             [](const LargerArgs& args) {
                               return std::vector<Operand>{input(size(args.count), below(4)),
                                                           input(size(args.count), below(4)),
                                                           output(size(args.count))};
                             },
                         .reference =
                             [](const LargerArgs& args, const Buffers& b) {
                               reference::larger_forward(args, b.get<double>(0), b.get<double>(1),
                                                         b.get<double>(2));
                             }});
  check_implementations(larger_backward, kLargerCases,
                        {.operands =
                             [](const LargerArgs& args) {
                               return std::vector<Operand>{input(size(args.count), below(4)),
                                                           input(size(args.count), below(4)),
                                                           input(size(args.count)),
                                                           output(size(args.count))};
                             },
                         .reference =
                             [](const LargerArgs& args, const Buffers& b) {
                               reference::larger_backward(args, b.get<double>(0), b.get<double>(1),
                                                          b.get<double>(2), b.get<double>(3));
                             }});
}

TEST(Larger, gradient) {
  std::vector<double> a = random_values(50, 1), b = random_values(50, 2), dst(50), diff(50);
  const std::vector<double> diff_dst = random_values(50, 3);
  for (const bool of_first : {true, false}) {
    const LargerArgs args{.count = 50, .of_first = of_first};
    reference::larger_backward(args, a.data(), b.data(), diff_dst.data(), diff.data());
    check_gradient(of_first ? "a" : "b", of_first ? a : b, diff, [&] {
      reference::larger_forward(args, a.data(), b.data(), dst.data());
      return dot(dst, diff_dst);
    });
  }
}

// As in Caffe, the gradient of two equal values goes to the second.
TEST(Larger, of_equals_the_second_counts) {
  const std::vector<double> equal{1, 2}, ones{1, 1};
  std::vector<double> diff(2);
  reference::larger_backward({.count = 2}, equal.data(), equal.data(), ones.data(), diff.data());
  EXPECT_EQ(diff, (std::vector<double>{0, 0}));
  reference::larger_backward({.count = 2, .of_first = false}, equal.data(), equal.data(),
                             ones.data(), diff.data());
  EXPECT_EQ(diff, ones);
}

TEST(Product, implementations_agree) {
  check_implementations(
      multiply_elements,
      {{"usual", {.count = 4096}}, {"one value", {.count = 1}}, {"odd", {.count = 1037}}},
      {.operands =
           [](const MultiplyElementsArgs& args) {
             return std::vector<Operand>{input(size(args.count)), input(size(args.count)),
                                         output(size(args.count))};
           },
       .reference =
           [](const MultiplyElementsArgs& args, const Buffers& b) {
             reference::multiply_elements(args, b.get<double>(0), b.get<double>(1),
                                          b.get<double>(2));
           }});
}

// The gradient of a factor is the product of the gradient and the other factor.
TEST(Product, gradient) {
  const MultiplyElementsArgs args{.count = 50};
  std::vector<double> a = random_values(50, 1), b = random_values(50, 2), dst(50), diff(50);
  const std::vector<double> diff_dst = random_values(50, 3);
  const auto loss = [&] {
    reference::multiply_elements(args, a.data(), b.data(), dst.data());
    return dot(dst, diff_dst);
  };
  reference::multiply_elements(args, diff_dst.data(), b.data(), diff.data());
  check_gradient("a", a, diff, loss);
  reference::multiply_elements(args, diff_dst.data(), a.data(), diff.data());
  check_gradient("b", b, diff, loss);
}

}  // namespace
}  // namespace omni::gradcheck
