#include "codelets/normalise/lrn.hpp"

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::size_t values(const LrnArgs& args) { return static_cast<std::size_t>(args.rows * args.c); }

const std::vector<Case<LrnArgs>> kLrnCases{
    {"CaffeNet", {.rows = 27, .c = 96, .size = 5, .alpha = 2e-5f}},
    {"one value", {.rows = 1, .c = 1}},
    {"one channel, strong", {.rows = 7, .c = 1, .size = 3, .alpha = 0.5f}},
    {"strong", {.rows = 11, .c = 33, .alpha = 1, .kappa = 2}},
    {"three", {.rows = 5, .c = 20, .size = 3, .alpha = 0.3f}},
    {"no neighbours", {.rows = 5, .c = 20, .size = 1, .alpha = 0.3f}},
    {"two", {.rows = 5, .c = 7, .size = 2, .alpha = 0.3f}},
    {"four", {.rows = 5, .c = 18, .size = 4, .alpha = 0.3f}},
    {"seven", {.rows = 3, .c = 50, .size = 7, .alpha = 0.3f}},
    {"window > channels", {.rows = 3, .c = 4, .size = 7, .alpha = 0.3f}},
    {"window >> channels", {.rows = 3, .c = 4, .size = 1001, .alpha = 0.3f}},
    {"square root", {.rows = 4, .c = 19, .alpha = 0.4f, .beta = 0.5f}},
    {"any power", {.rows = 4, .c = 19, .alpha = 0.4f, .beta = 0.6f}},
    {"beta 1", {.rows = 4, .c = 19, .alpha = 0.4f, .beta = 1}},
};

double lrn_terms(const LrnArgs& args) { return args.size; }

TEST(Lrn, implementations_agree) {
  check_implementations(lrn_forward, kLrnCases,
                        {.operands = [](const LrnArgs& args) -> std::vector<Operand> {
                           return {input(values(args)), output(values(args)), output(values(args))};
                         },
                         .reference =
                             [](const LrnArgs& args, const Buffers& buffers) {
                               reference::lrn_forward(args, buffers.get<double>(0),
                                                      buffers.get<double>(1),
                                                      buffers.get<double>(2));
                             },
                         .terms = lrn_terms});
  check_implementations(
      lrn_backward, kLrnCases,
      {.operands = [](const LrnArgs& args) -> std::vector<Operand> {
         return {input(values(args)), input(values(args)), input(values(args), uniform(0.5f, 3)),
                 input(values(args)), output(values(args))};
       },
       .reference =
           [](const LrnArgs& args, const Buffers& buffers) {
             reference::lrn_backward(args, buffers.get<double>(0), buffers.get<double>(1),
                                     buffers.get<double>(2), buffers.get<double>(3),
                                     buffers.get<double>(4));
           },
       .terms = lrn_terms});
}

TEST(Lrn, gradient) {
  for (const Case<LrnArgs>& each : kLrnCases) {
    SCOPED_TRACE(each.what);
    std::vector<double> src = random_values(values(each.args), 1);
    const std::vector<double> diff_dst = random_values(src.size(), 2);
    std::vector<double> dst(src.size()), scale(src.size()), diff_src(src.size());
    const auto loss = [&] {
      reference::lrn_forward(each.args, src.data(), dst.data(), scale.data());
      return dot(dst, diff_dst);
    };
    loss();
    reference::lrn_backward(each.args, src.data(), dst.data(), scale.data(), diff_dst.data(),
                            diff_src.data());
    check_gradient("src", src, diff_src, loss);
  }
}

std::vector<double> scales(int size, std::vector<double> src) {
  std::vector<double> dst(src.size()), scale(src.size());
  reference::lrn_forward({.rows = 1,
                          .c = static_cast<int>(src.size()),
                          .size = size,
                          .alpha = 0.5f,
                          .beta = 0.75f,
                          .kappa = 1},
                         src.data(), dst.data(), scale.data());
  for (std::size_t i = 0; i < src.size(); ++i)
    EXPECT_NEAR(dst[i], src[i] / std::pow(scale[i], 0.75), 1e-12);
  return scale;
}

// The squares are 1, 4, 9 and 16. An odd window is centred. An even window reaches one channel
// further up.
TEST(Lrn, hand_computed_windows) {
  const std::vector<double> src{1, -2, 3, 4};
  EXPECT_EQ(scales(1, src), (std::vector<double>{1.5, 3, 5.5, 9}));
  EXPECT_EQ(scales(2, src), (std::vector<double>{3.5, 7.5, 13.5, 9}));
  EXPECT_EQ(scales(3, src), (std::vector<double>{3.5, 8, 15.5, 13.5}));
  EXPECT_EQ(scales(4, src), (std::vector<double>{8, 16, 15.5, 13.5}));
  EXPECT_EQ(scales(5, src), (std::vector<double>{8, 16, 16, 15.5}));
}

}  // namespace
}  // namespace omni::gradcheck
