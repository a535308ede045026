#include "codelets/functions/shortcut_add.hpp"

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::size_t count_a(const ShortcutArgs& args) {
  return args.a.count() * static_cast<std::size_t>(args.n);
}
std::size_t count_b(const ShortcutArgs& args) {
  return args.b.count() * static_cast<std::size_t>(args.n);
}

const std::vector<Case<ShortcutArgs>> kShortcutAddCases{
    {"residual block", {.n = 2, .a = {7, 7, 64}, .b = {7, 7, 64}, .activation = Activation::relu}},
    {"more than a block",
     {.n = 3, .a = {13, 11, 17}, .b = {13, 11, 17}, .alpha = 0.5f, .beta = -2}},
    {"one value", {.n = 1, .a = {1, 1, 1}, .b = {1, 1, 1}}},
    {"larger, fewer channels",
     {.n = 2, .a = {4, 4, 8}, .b = {8, 8, 4}, .beta = 3, .activation = Activation::leaky}},
    {"larger, not a multiple", {.n = 2, .a = {3, 5, 4}, .b = {7, 11, 4}, .alpha = 2}},
    {"smaller, more channels", {.n = 2, .a = {6, 6, 3}, .b = {3, 3, 5}, .alpha = 2, .beta = 0.5f}},
    {"smaller, not a multiple", {.n = 1, .a = {7, 5, 2}, .b = {3, 2, 2}}},
    {"taller but narrower",
     {.n = 2, .a = {2, 9, 3}, .b = {5, 3, 3}, .activation = Activation::logistic}},
    {"by fours", {.n = 2, .a = {4, 4, 12}, .b = {2, 8, 8}, .alpha = 2, .beta = 3}},
    {"channels only", {.n = 2, .a = {3, 3, 5}, .b = {3, 3, 2}, .alpha = 2, .beta = 3}},
};

TEST(ShortcutForward, implementations_agree) {
  check_implementations(
      shortcut_forward, kShortcutAddCases,
      {.operands = [](const ShortcutArgs& args) -> std::vector<Operand> {
         return {input(count_a(args)), input(count_b(args)), output(count_a(args))};
       },
       .reference =
           [](const ShortcutArgs& args, const Buffers& buffers) {
             reference::shortcut_forward(args, buffers.get<double>(0), buffers.get<double>(1),
                                         buffers.get<double>(2));
           }});
}

TEST(ShortcutBackward, implementations_agree) {
  check_implementations(shortcut_backward_a, kShortcutAddCases,
                        {.operands = [](const ShortcutArgs& args) -> std::vector<Operand> {
                           return {input(count_a(args)), output(count_a(args))};
                         },
                         .reference =
                             [](const ShortcutArgs& args, const Buffers& buffers) {
                               reference::shortcut_backward_a(args, buffers.get<double>(0),
                                                              buffers.get<double>(1));
                             }});
  check_implementations(shortcut_backward_b, kShortcutAddCases,
                        {.operands = [](const ShortcutArgs& args) -> std::vector<Operand> {
                           return {input(count_a(args)), output(count_b(args))};
                         },
                         .reference =
                             [](const ShortcutArgs& args, const Buffers& buffers) {
                               reference::shortcut_backward_b(args, buffers.get<double>(0),
                                                              buffers.get<double>(1));
                             }});
}

TEST(ResidualBackward, implementations_agree) {
  check_implementations(
      residual_backward,
      {{"usual", {.count = 1003, .activation = Activation::relu}},
       {"one value", {.count = 1, .activation = Activation::linear}},
       {"smooth", {.count = 77, .activation = Activation::logistic}}},
      {.operands = [](const ActivationArgs& args) -> std::vector<Operand> {
         const auto count = static_cast<std::size_t>(args.count);
         return {input(count, away_from_zero(0.01f)), in_place(count), output(count)};
       },
       .reference =
           [](const ActivationArgs& args, const Buffers& buffers) {
             reference::residual_backward(args, buffers.get<double>(0), buffers.get<double>(1),
                                          buffers.get<double>(2));
           }});
}

TEST(ShortcutBackward, gradients) {
  for (const Case<ShortcutArgs>& each : kShortcutAddCases) {
    SCOPED_TRACE(each.what);
    ShortcutArgs args = each.args;
    args.activation = Activation::linear;  // its gradient is another codelet's
    std::vector<double> a = random_values(count_a(args), 1), b = random_values(count_b(args), 2);
    const std::vector<double> diff_dst = random_values(count_a(args), 3);
    std::vector<double> dst(a.size()), diff_a(a.size()), diff_b(b.size());
    const auto loss = [&] {
      reference::shortcut_forward(args, a.data(), b.data(), dst.data());
      return dot(dst, diff_dst);
    };
    reference::shortcut_backward_a(args, diff_dst.data(), diff_a.data());
    reference::shortcut_backward_b(args, diff_dst.data(), diff_b.data());
    check_gradient("a", a, diff_a, loss);
    check_gradient("b", b, diff_b, loss);
  }
}

// With a = 10, 20, ... and b = 1, 2, ..., each sum shows which two values were added.
TEST(ShortcutForward, hand_computed_where_sizes_differ) {
  const auto sum = [](Extent a, Extent b) {
    std::vector<double> in_a(a.count()), in_b(b.count()), dst(a.count());
    for (std::size_t i = 0; i < in_a.size(); ++i) in_a[i] = 10.0 * static_cast<double>(i + 1);
    for (std::size_t i = 0; i < in_b.size(); ++i) in_b[i] = static_cast<double>(i + 1);
    reference::shortcut_forward({.n = 1, .a = a, .b = b}, in_a.data(), in_b.data(), dst.data());
    return dst;
  };
  using Doubles = std::vector<double>;
  EXPECT_EQ(sum({1, 4, 1}, {1, 2, 1}), (Doubles{11, 20, 32, 40}));      // spread out in w
  EXPECT_EQ(sum({5, 1, 1}, {2, 1, 1}), (Doubles{11, 20, 32, 40, 50}));  // and in h
  EXPECT_EQ(sum({1, 2, 1}, {1, 5, 1}), (Doubles{11, 23}));              // subsampled
  EXPECT_EQ(sum({1, 2, 2}, {1, 2, 1}), (Doubles{11, 20, 32, 40}));      // fewer channels
  EXPECT_EQ(sum({1, 2, 1}, {1, 2, 3}), (Doubles{11, 24}));              // more channels
}

}  // namespace
}  // namespace omni::gradcheck
