// These tests compare crops with references, numeric gradients and values computed by hand.

#include <numeric>
#include <set>

#include "codelets/spatial/crop_mirror.hpp"
#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::size_t src_values(const CropMirrorArgs& args) {
  return args.src.count() * static_cast<std::size_t>(args.n);
}
std::size_t dst_values(const CropMirrorArgs& args) {
  return args.dst().count() * static_cast<std::size_t>(args.n);
}

const std::vector<Case<CropMirrorArgs>> kCropMirrorCases{
    {"training",
     {.n = 6, .src = {9, 8, 3}, .out_h = 5, .out_w = 6, .training = true, .flip = true, .seed = 3}},
    {"centre", {.n = 2, .src = {9, 8, 3}, .out_h = 4, .out_w = 5, .flip = true}},
    {"grey, unadjusted",
     {.n = 5,
      .src = {5, 5, 1},
      .out_h = 3,
      .out_w = 3,
      .training = true,
      .flip = true,
      .adjust = false}},
    {"two channels",
     {.n = 5, .src = {4, 6, 2}, .out_h = 3, .out_w = 3, .training = true, .flip = true}},
    {"one pixel of one", {.n = 1, .src = {1, 1, 1}, .out_h = 1, .out_w = 1, .training = true}},
    {"mirror only",
     {.n = 5, .src = {3, 7, 3}, .out_h = 3, .out_w = 7, .training = true, .flip = true}},
};

TEST(CropMirror, implementations_agree) {
  check_implementations(crop_mirror_forward, kCropMirrorCases,
                        {.operands = [](const CropMirrorArgs& args) -> std::vector<Operand> {
                           return {input(src_values(args)), output(dst_values(args))};
                         },
                         .reference =
                             [](const CropMirrorArgs& args, const Buffers& buffers) {
                               reference::crop_mirror_forward(args, buffers.get<double>(0),
                                                              buffers.get<double>(1));
                             }});
  check_implementations(crop_mirror_backward, kCropMirrorCases,
                        {.operands = [](const CropMirrorArgs& args) -> std::vector<Operand> {
                           return {input(dst_values(args)), output(src_values(args))};
                         },
                         .reference =
                             [](const CropMirrorArgs& args, const Buffers& buffers) {
                               reference::crop_mirror_backward(args, buffers.get<double>(0),
                                                               buffers.get<double>(1));
                             }});
}

TEST(CropMirror, gradient) {
  for (const Case<CropMirrorArgs>& each : kCropMirrorCases) {
    SCOPED_TRACE(each.what);
    std::vector<double> src = random_values(src_values(each.args), 1), diff_src(src.size());
    const std::vector<double> diff_dst = random_values(dst_values(each.args), 2);
    std::vector<double> dst(diff_dst.size());
    reference::crop_mirror_backward(each.args, diff_dst.data(), diff_src.data());
    check_gradient("src", src, diff_src, [&] {
      reference::crop_mirror_forward(each.args, src.data(), dst.data());
      return dot(dst, diff_dst);
    });
  }
}

TEST(CropMirror, hand_computed_centre) {
  std::vector<double> src(16), dst(4);
  std::iota(src.begin(), src.end(), 0.0);
  CropMirrorArgs args{.n = 1, .src = {4, 4, 1}, .out_h = 2, .out_w = 2};
  reference::crop_mirror_forward(args, src.data(), dst.data());
  EXPECT_EQ(dst, (std::vector<double>{9, 11, 17, 19}));
  args.adjust = false;
  reference::crop_mirror_forward(args, src.data(), dst.data());
  EXPECT_EQ(dst, (std::vector<double>{5, 6, 9, 10}));
}

TEST(CropMirror, a_mirrored_window_is_the_plain_one_reversed) {
  CropMirrorArgs args{.n = 1,
                      .src = {3, 6, 2},
                      .out_h = 3,
                      .out_w = 4,
                      .training = true,
                      .flip = true,
                      .adjust = false};
  while (!crop_window(args, 0).mirrored) ++args.first_sample;
  std::vector<double> src(args.src.count()), dst(args.dst().count());
  std::iota(src.begin(), src.end(), 0.0);
  reference::crop_mirror_forward(args, src.data(), dst.data());
  const CropWindow window = crop_window(args, 0);
  for (int x = 0; x < 4; ++x)
    for (int k = 0; k < 2; ++k)
      EXPECT_EQ(dst[static_cast<std::size_t>(x * 2 + k)], (window.left + 3 - x) * 2 + k);
}

using Place = std::tuple<int, int, bool>;
Place place(const CropMirrorArgs& args, int image) {
  const CropWindow window = crop_window(args, image);
  return {window.top, window.left, window.mirrored};
}

TEST(CropMirror, the_window_depends_on_the_sample_and_not_on_the_slice) {
  const CropMirrorArgs whole{.n = 64,
                             .src = {32, 32, 3},
                             .out_h = 28,
                             .out_w = 28,
                             .training = true,
                             .flip = true,
                             .seed = 11};
  CropMirrorArgs part = whole;
  part.first_sample = 40;
  part.n = 8;
  for (int image = 0; image < 8; ++image) EXPECT_EQ(place(part, image), place(whole, 40 + image));

  std::set<Place> seen;
  int differ_by_layer = 0, differ_by_seed = 0;
  CropMirrorArgs other_layer = whole, other_seed = whole;
  other_layer.layer = 1;
  other_seed.seed = 12;
  for (int image = 0; image < 1000; ++image) {
    seen.insert(place(whole, image));
    differ_by_layer += place(whole, image) != place(other_layer, image);
    differ_by_seed += place(whole, image) != place(other_seed, image);
  }
  EXPECT_EQ(seen.size(), 5u * 5u * 2u) << "every place, the last row and column included";
  EXPECT_GT(differ_by_layer, 900);
  EXPECT_GT(differ_by_seed, 900);
}

}  // namespace
}  // namespace omni::gradcheck
