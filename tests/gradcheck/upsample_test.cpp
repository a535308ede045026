// These tests compare upsampling with references, numeric gradients and values computed by hand.

#include "codelets/spatial/upsample.hpp"
#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::size_t src_values(const UpsampleArgs& args) {
  return args.src.count() * static_cast<std::size_t>(args.n);
}
std::size_t dst_values(const UpsampleArgs& args) {
  return src_values(args) * static_cast<std::size_t>(args.stride * args.stride);
}

const std::vector<Case<UpsampleArgs>> kUpsampleCases{
    {"usual", {.n = 2, .src = {4, 5, 16}}},
    {"one value", {.n = 1, .src = {1, 1, 1}}},
    {"odd stride, scaled", {.n = 2, .src = {3, 2, 5}, .stride = 3, .scale = 0.7f}},
    {"stride one", {.n = 1, .src = {5, 3, 3}, .stride = 1, .scale = 2}},
    {"one channel", {.n = 3, .src = {7, 3, 1}, .stride = 4}},
};

TEST(Upsample, implementations_agree) {
  check_implementations(upsample_forward, kUpsampleCases,
                        {.operands = [](const UpsampleArgs& args) -> std::vector<Operand> {
                           return {input(src_values(args)), output(dst_values(args))};
                         },
                         .reference =
                             [](const UpsampleArgs& args, const Buffers& buffers) {
                               reference::upsample_forward(args, buffers.get<double>(0),
                                                           buffers.get<double>(1));
                             }});
  check_implementations(upsample_backward, kUpsampleCases,
                        {.operands = [](const UpsampleArgs& args) -> std::vector<Operand> {
                           return {input(dst_values(args)), output(src_values(args))};
                         },
                         .reference =
                             [](const UpsampleArgs& args, const Buffers& buffers) {
                               reference::upsample_backward(args, buffers.get<double>(0),
                                                            buffers.get<double>(1));
                             }});
}

TEST(Upsample, gradient) {
  for (const Case<UpsampleArgs>& each : kUpsampleCases) {
    SCOPED_TRACE(each.what);
    std::vector<double> src = random_values(src_values(each.args), 1), diff_src(src.size());
    const std::vector<double> diff_dst = random_values(dst_values(each.args), 2);
    std::vector<double> dst(diff_dst.size());
    reference::upsample_backward(each.args, diff_dst.data(), diff_src.data());
    check_gradient("src", src, diff_src, [&] {
      reference::upsample_forward(each.args, src.data(), dst.data());
      return dot(dst, diff_dst);
    });
  }
}

TEST(Upsample, hand_computed) {
  const std::vector<double> src{1, 2};
  std::vector<double> dst(8), back(2);
  const UpsampleArgs args{.n = 1, .src = {1, 2, 1}, .stride = 2, .scale = 3};
  reference::upsample_forward(args, src.data(), dst.data());
  EXPECT_EQ(dst, (std::vector<double>{3, 3, 6, 6, 3, 3, 6, 6}));
  reference::upsample_backward(args, dst.data(), back.data());
  EXPECT_EQ(back, (std::vector<double>{36, 72}));
}

}  // namespace
}  // namespace omni::gradcheck
