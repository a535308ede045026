// These tests compare reorg with its reference, its inverse and values computed by hand.

#include <numeric>

#include "codelets/spatial/reorg.hpp"
#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::size_t values(const ReorgArgs& args) {
  return args.wide.count() * static_cast<std::size_t>(args.n);
}

const std::vector<Case<ReorgArgs>> kReorgCases{
    {"to depth", {.n = 2, .wide = {6, 4, 8}}},
    {"to space", {.n = 2, .wide = {6, 4, 8}, .to_depth = false}},
    {"stride three", {.n = 3, .wide = {3, 9, 1}, .stride = 3}},
    {"stride one", {.n = 1, .wide = {2, 3, 5}, .stride = 1}},
    {"back to one channel", {.n = 1, .wide = {2, 2, 1}, .to_depth = false}},
};

TEST(Reorg, implementations_agree) {
  check_implementations(reorg, kReorgCases,
                        {.operands = [](const ReorgArgs& args) -> std::vector<Operand> {
                           return {input(values(args)), output(values(args))};
                         },
                         .reference =
                             [](const ReorgArgs& args, const Buffers& buffers) {
                               reference::reorg(args, buffers.get<double>(0),
                                                buffers.get<double>(1));
                             },
                         .tolerance = 0});
}

TEST(Reorg, the_other_direction_is_inverse_and_gradient) {
  for (const Case<ReorgArgs>& each : kReorgCases) {
    SCOPED_TRACE(each.what);
    ReorgArgs back = each.args;
    back.to_depth = !back.to_depth;
    std::vector<double> src = random_values(values(back), 1), dst(src.size()), diff_src(src.size());
    reference::reorg(each.args, src.data(), dst.data());
    reference::reorg(back, dst.data(), diff_src.data());
    EXPECT_EQ(diff_src, src);

    const std::vector<double> diff_dst = random_values(values(back), 2);
    reference::reorg(back, diff_dst.data(), diff_src.data());
    check_gradient("src", src, diff_src, [&] {
      reference::reorg(each.args, src.data(), dst.data());
      return dot(dst, diff_dst);
    });
  }
}

TEST(Reorg, hand_computed) {
  std::vector<double> src(12), dst(12);  // 2x6 pixels, one channel: three blocks
  std::iota(src.begin(), src.end(), 0.0);
  reference::reorg({.n = 1, .wide = {2, 6, 1}}, src.data(), dst.data());
  EXPECT_EQ(dst, (std::vector<double>{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11}));
}

}  // namespace
}  // namespace omni::gradcheck
