#include "codelets/normalise/l2norm.hpp"

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::size_t values(const L2NormArgs& args) { return static_cast<std::size_t>(args.rows * args.c); }

const std::vector<Case<L2NormArgs>> kL2NormCases{
    {"usual", {.rows = 49, .c = 64}},     {"one value", {.rows = 1, .c = 1}},
    {"one channel", {.rows = 9, .c = 1}}, {"odd", {.rows = 7, .c = 13}},
    {"long", {.rows = 2, .c = 1000}},
};

double terms(const L2NormArgs& args) { return args.c; }

TEST(L2Norm, implementations_agree) {
  check_implementations(l2norm_forward, kL2NormCases,
                        {.operands = [](const L2NormArgs& args) -> std::vector<Operand> {
                           return {input(values(args)), output(values(args))};
                         },
                         .reference =
                             [](const L2NormArgs& args, const Buffers& buffers) {
                               reference::l2norm_forward(args, buffers.get<double>(0),
                                                         buffers.get<double>(1));
                             },
                         .terms = terms});
  check_implementations(l2norm_backward, kL2NormCases,
                        {.operands = [](const L2NormArgs& args) -> std::vector<Operand> {
                           return {input(values(args), away_from_zero(0.1f)), input(values(args)),
                                   output(values(args))};
                         },
                         .reference =
                             [](const L2NormArgs& args, const Buffers& buffers) {
                               reference::l2norm_backward(args, buffers.get<double>(0),
                                                          buffers.get<double>(1),
                                                          buffers.get<double>(2));
                             },
                         .terms = terms});
}

TEST(L2Norm, gradient) {
  for (const L2NormArgs& args : {L2NormArgs{5, 7}, L2NormArgs{1, 2}, L2NormArgs{3, 33}}) {
    std::vector<double> src = random_values(values(args), 1, away_from_zero(0.1f));
    const std::vector<double> diff_dst = random_values(values(args), 2);
    std::vector<double> dst(src.size()), diff_src(src.size());
    reference::l2norm_backward(args, src.data(), diff_dst.data(), diff_src.data());
    check_gradient("src", src, diff_src, [&] {
      reference::l2norm_forward(args, src.data(), dst.data());
      return dot(dst, diff_dst);
    });
  }
}

TEST(L2Norm, hand_computed_and_zero_stays_zero) {
  const std::vector<double> src{3, 4, 0, 0};
  std::vector<double> dst(4);
  reference::l2norm_forward({.rows = 2, .c = 2}, src.data(), dst.data());
  EXPECT_NEAR(dst[0], 0.6, 1e-12);
  EXPECT_NEAR(dst[1], 0.8, 1e-12);
  EXPECT_EQ(dst[2], 0);
  EXPECT_EQ(dst[3], 0);
}

}  // namespace
}  // namespace omni::gradcheck
