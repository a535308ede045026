#include "codelets/convolution/convolution.hpp"

#include "tests/gradcheck/dense/convolution_cases.hpp"

namespace omni::gradcheck {
namespace {

TEST(Convolution, Forward) {
  in_every_precision(
      [] { check_implementations(conv_forward, forward_cases(), forward_operation()); });
}

TEST(Convolution, BackwardWeights) {
  in_every_precision(
      [] { check_implementations(conv_backward_weights, weights_cases(), weights_operation()); });
}

TEST(Convolution, BackwardData) {
  in_every_precision(
      [] { check_implementations(conv_backward_data, data_cases(), data_operation()); });
}

TEST(Convolution, GradientOfReference) {
  for (const auto& [what, shape] : kConvShapes) {
    if (shape.dst_count() * shape.taps() > 500'000) continue;  // seconds, and nothing new
    SCOPED_TRACE(what);
    check_weighted_gradients(
        {shape.src_count(), shape.weights_count(), shape.filters, shape.dst_count()},
        [&shape = shape](const WeightedOperands& from, double* dst) {
          reference::conv_forward({.shape = shape, .has_bias = true}, from.src.data(),
                                  from.weights.data(), dst, from.bias.data());
        },
        [&shape = shape](const WeightedOperands& from, const double* diff_dst,
                         WeightedOperands& gradients) {
          reference::conv_backward_weights({.shape = shape, .has_bias = true}, from.src.data(),
                                           diff_dst, gradients.weights.data(),
                                           gradients.bias.data());
          reference::conv_backward_data({.shape = shape}, diff_dst, from.weights.data(),
                                        gradients.src.data());
        });
  }
}

// If relu turned NaN into 0, the loss would not show that the net has diverged.
TEST(ConvForward, relu_keeps_nan) {
  const auto src = input(64, [i = 0](Draws&) mutable { return i++ % 64 == 5 ? NAN : 1.0f; });
  const auto ones = [](Draws&) { return 1.0f; };
  for (const bool has_bias : {false, true}) {
    const ConvForwardArgs args{.shape = {.n = 1, .h = 4, .w = 4, .c = 4, .filters = 8},
                               .activation = Activation::relu,
                               .has_bias = has_bias};
    for (const auto& implementation : conv_forward.implementations()) {
      const bool on_gpu = implementation.role == Role::gpu;
      if (on_gpu && !gpu::present()) continue;
      if (implementation.supports != nullptr && !implementation.supports(args)) continue;
      SCOPED_TRACE(implementation.name);
      const auto run = [&](const Buffers& buffers) {
        implementation.kernel(args, buffers, DeviceContext::current());
      };
      const auto blocks =
          run_on<float>({src, input(32, ones), output(128), input(8, ones)}, 1, run, on_gpu);
      const auto* dst = static_cast<const float*>(blocks[2].data());
      EXPECT_TRUE(std::isnan(dst[8]));            // the pixel that holds it
      EXPECT_EQ(dst[0], has_bias ? 5.0f : 4.0f);  // and another one
    }
  }
}

}  // namespace
}  // namespace omni::gradcheck
