// A transposed convolution is a convolution's codelets the other way round: in these roles, too,
// they are each other's gradients, and they add up to what the textbook says. That all
// implementations agree is convolution_test's business.
#include "codelets/dense/convolution.hpp"
#include "codelets/elementwise/channel_bias.hpp"
#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

struct Transposed {
  int n = 1, h = 1, w = 1, c = 1, filters = 1, size = 1, stride = 1, pad = 0;

  // As layers/types/deconvolutional_layer.cpp makes it.
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

const std::vector<Case<Transposed>> kShapes{
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

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

// Every value of the input adds its filter, scaled, to the output: a loop of its own, since the
// layer uses the convolution's.
std::vector<double> textbook(const Transposed& t, const std::vector<double>& src,
                             const std::vector<double>& weights, const std::vector<double>& bias) {
  const ConvShape conv = t.conv();
  std::vector<double> dst(size(conv.src_count()));
  for (std::size_t i = 0; i < dst.size(); ++i) dst[i] = bias[i % bias.size()];
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
                    src[size(((image * t.h + y) * t.w + x) * t.c + c)] *
                    weights[size(((c * t.size + ky) * t.size + kx) * t.filters + k)];
              }
  return dst;
}

TEST(Deconvolution, GradientOfReference) {
  for (const auto& [what, transposed] : kShapes) {
    SCOPED_TRACE(what);
    const ConvShape shape = transposed.conv();
    ASSERT_EQ(shape.out_h(), transposed.h);
    ASSERT_EQ(shape.out_w(), transposed.w);
    const std::int64_t rows = shape.src_count() / shape.c;
    auto src = random_values(size(shape.dst_count()), 1);
    auto weights = random_values(size(shape.weights_count()), 2);
    auto bias = random_values(size(shape.c), 3);
    const auto direction = random_values(size(shape.src_count()), 4);
    std::vector<double> dst(direction.size()), diff_src(src.size()), diff_weights(weights.size()),
        diff_bias(bias.size());
    const auto loss = [&] {
      reference::conv_backward_data({.shape = shape}, src.data(), weights.data(), dst.data());
      reference::channel_bias_forward({.rows = rows, .c = shape.c}, bias.data(), dst.data());
      return dot(direction, dst);
    };
    loss();
    const std::vector<double> expected = textbook(transposed, src, weights, bias);
    EXPECT_LE(relative_error(std::span<const double>(dst), std::span(expected)), 1e-14);

    reference::conv_forward({.shape = shape}, direction.data(), weights.data(),
                            static_cast<const double*>(nullptr), diff_src.data());
    reference::conv_backward_weights({.shape = shape}, direction.data(), src.data(),
                                     diff_weights.data(), static_cast<double*>(nullptr));
    reference::channel_bias_backward({.rows = rows, .c = shape.c}, direction.data(),
                                     diff_bias.data());
    check_gradient("src", src, diff_src, loss);
    check_gradient("weights", weights, diff_weights, loss);
    check_gradient("bias", bias, diff_bias, loss);
  }
}

}  // namespace
}  // namespace omni::gradcheck
