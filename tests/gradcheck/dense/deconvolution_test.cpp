// A transposed convolution uses the convolution's codelets in other roles. These tests check that
// they are each other's gradients in these roles, too, and that the result is the textbook's.
// convolution_test.cpp compares all implementations.
#include "codelets/convolution/convolution.hpp"
#include "codelets/elementwise/channel_bias.hpp"
#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

struct Transposed {
  int n = 1, h = 1, w = 1, c = 1, filters = 1, size = 1, stride = 1, pad = 0;

  // Returns the shape that layers/types/filter_layers.cpp uses for the convolution's codelets.
  ConvShape conv() const {
    const auto side = [&](int src) { return (src - 1) * stride + size - 2 * pad; };
    return {.n = n,
            .h = side(h),
            .w = side(w),
            .c = filters,
            .filters = c,
            .kernel_h = size,
            .kernel_w = size,
            .stride_h = stride,
            .stride_w = stride,
            .pad_h = pad,
            .pad_w = pad};
  }
};

const std::vector<Case<Transposed>> kDeconvolutionShapes{
    {"doubled", {.n = 2, .h = 3, .w = 4, .c = 5, .filters = 6, .size = 4, .stride = 2, .pad = 1}},
    {"one of each", {}},
    {"1x1 image", {.n = 2, .c = 3, .filters = 4, .size = 3, .stride = 2}},
    {"1x1 image under padding", {.n = 1, .c = 3, .filters = 2, .size = 3, .pad = 1}},
    {"1x1 kernel", {.n = 2, .h = 3, .w = 5, .c = 4, .filters = 7}},
    {"stride greater than kernel: gaps",
     {.n = 2, .h = 3, .w = 2, .c = 4, .filters = 3, .size = 2, .stride = 3}},
    {"odd sizes, one image",
     {.n = 1, .h = 5, .w = 3, .c = 1, .filters = 3, .size = 5, .stride = 3, .pad = 2}},
    {"more padding than kernel",
     {.n = 2, .h = 8, .w = 9, .c = 2, .filters = 3, .size = 2, .pad = 3}},
};

// The textbook's definition adds, for every input value, the filter times this value to the output.
std::vector<double> textbook(const Transposed& t, const WeightedOperands& from) {
  const ConvShape conv = t.conv();
  std::vector<double> dst(size(conv.src_count()));
  for (std::size_t i = 0; i < dst.size(); ++i) dst[i] = from.bias[i % from.bias.size()];
  for (int image = 0; image < t.n; ++image)
    for (int y = 0; y < t.h; ++y)
      for (int x = 0; x < t.w; ++x)
        for (int c = 0; c < t.c; ++c)
          for (int ky = 0; ky < t.size; ++ky)
            for (int kx = 0; kx < t.size; ++kx)
              for (int k = 0; k < t.filters; ++k) {
                const int to_y = y * t.stride + ky - t.pad, to_x = x * t.stride + kx - t.pad;
                if (to_y < 0 || to_y >= conv.h || to_x < 0 || to_x >= conv.w) continue;
                dst[size(((image * conv.h + to_y) * conv.w + to_x) * t.filters + k)] +=
                    from.src[size(((image * t.h + y) * t.w + x) * t.c + c)] *
                    from.weights[size(((c * t.size + ky) * t.size + kx) * t.filters + k)];
              }
  return dst;
}

// The layer calls these two codelets in its forward pass.
void forward(const ConvShape& shape, const WeightedOperands& from, double* dst) {
  reference::conv_backward_data({.shape = shape}, from.src.data(), from.weights.data(), dst);
  reference::channel_bias_forward({.rows = shape.src_count() / shape.c, .c = shape.c},
                                  from.bias.data(), dst);
}

TEST(Deconvolution, IsWhatTheTextbookSays) {
  for (const auto& [what, transposed] : kDeconvolutionShapes) {
    SCOPED_TRACE(what);
    const ConvShape shape = transposed.conv();
    EXPECT_EQ(shape.out_h(), transposed.h);
    EXPECT_EQ(shape.out_w(), transposed.w);
    const WeightedOperands from{random_values(size(shape.dst_count()), 1),
                                random_values(size(shape.weights_count()), 2),
                                random_values(size(shape.c), 3)};
    std::vector<double> dst(size(shape.src_count()));
    forward(shape, from, dst.data());
    const std::vector<double> expected = textbook(transposed, from);
    EXPECT_LE(relative_error(std::span<const double>(dst), std::span(expected)), 1e-14);
  }
}

TEST(Deconvolution, GradientOfReference) {
  for (const auto& [what, transposed] : kDeconvolutionShapes) {
    SCOPED_TRACE(what);
    const ConvShape shape = transposed.conv();
    check_weighted_gradients(
        {shape.dst_count(), shape.weights_count(), shape.c, shape.src_count()},
        [&](const WeightedOperands& from, double* dst) { forward(shape, from, dst); },
        [&](const WeightedOperands& from, const double* diff_dst, WeightedOperands& gradients) {
          reference::conv_forward({.shape = shape}, diff_dst, from.weights.data(),
                                  gradients.src.data(), static_cast<const double*>(nullptr));
          reference::conv_backward_weights({.shape = shape}, diff_dst, from.src.data(),
                                           gradients.weights.data(), static_cast<double*>(nullptr));
          std::vector<double> diff(diff_dst, diff_dst + shape.src_count());
          reference::channel_bias_backward({.rows = shape.src_count() / shape.c, .c = shape.c},
                                           diff.data(), gradients.bias.data(),
                                           static_cast<const double*>(nullptr));
        });
  }
}

}  // namespace
}  // namespace omni::gradcheck
