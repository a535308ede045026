// These tests check that --precision bf16 multiplies rounded numbers, and on GPUs --precision tf32,
// too. Other tests check products of numbers that rounding does not change.
#include "codelets/dense/gemm.hpp"

#include <limits>

#include "codelets/convolution/convolution.hpp"
#include "codelets/dense/connected.hpp"
#include "codelets/dense/connected_update.hpp"
#include "codelets/dense/local.hpp"
#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

TEST(Bf16, rounds_to_the_nearest_and_ties_to_even) {
  constexpr float kStep = 0x1p-7f;  // between 1 and 2
  EXPECT_EQ(round_to_bf16(1.0f + 0.49f * kStep), 1.0f);
  EXPECT_EQ(round_to_bf16(1.0f + 0.51f * kStep), 1.0f + kStep);
  EXPECT_EQ(round_to_bf16(1.0f + 0.5f * kStep), 1.0f);
  EXPECT_EQ(round_to_bf16(1.0f + 1.5f * kStep), 1.0f + 2 * kStep);
  EXPECT_EQ(round_to_bf16(-1.0f - 1.5f * kStep), -1.0f - 2 * kStep);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(round_to_bf16(kInfinity), kInfinity);
  EXPECT_EQ(round_to_bf16(-std::numeric_limits<float>::max()), -kInfinity);
  EXPECT_TRUE(std::isnan(round_to_bf16(std::bit_cast<float>(0x7F800001u))));
  EXPECT_TRUE(std::isnan(round_to_bf16(std::bit_cast<float>(0xFFFFFFFFu))));
}

using Values = std::vector<float>;

Values some_values(std::int64_t count, std::uint64_t seed) {
  const std::vector<double> values = random_values(size(count), seed);
  return {values.begin(), values.end()};
}

// Expects that implementations round the factors `first` and `second` to the nearest. run() returns
// their products. A factor whose bits are cut off would give another product than its rounded
// value.
template <class Args, class Run>
void check_that_factors_are_rounded(const std::string& codelet,
                                    const std::vector<Implementation<Args>>& implementations,
                                    const Values& first, const Values& second, Run run) {
  const auto product = [&](const Implementation<Args>& implementation, const Values& a,
                           const Values& b, Precision precision) {
    const Deterministic policy(precision);
    return run(implementation, a, b);
  };
  const auto rounded = [](Values values) {
    round_to_bf16(values);
    return values;
  };
  for (const Implementation<Args>& each : implementations) {
    SCOPED_TRACE(codelet + " (" + each.name + ")");
    const Values bf16 = product(each, first, second, Precision::bf16);
    EXPECT_EQ(bf16, product(each, rounded(first), rounded(second), Precision::bf16));
    const Values exact = product(each, first, second, Precision::fp32);
    const double error = relative_error(std::span(bf16), std::span(exact));
    EXPECT_GT(error, 1e-4);
    EXPECT_LT(error, 0x1p-8);
    if (each.role != Role::gpu) continue;
    // tf32 has 10 bits of mantissa. A GPU may cut off the other bits instead of rounding.
    const Values tf32 = product(each, first, second, Precision::tf32);
    EXPECT_LT(relative_error(std::span(tf32), std::span(exact)), 0x1p-9);
  }
}

// Returns the implementations that round: oneDNN's and those of GPUs.
template <class Args>
std::vector<Implementation<Args>> rounding(const Codelet<Args>& codelet) {
  auto found = implementations_here(codelet);
  std::erase_if(found, [](const auto& each) {
    return each.role != Role::gpu && std::string_view(each.name) != "onednn";
  });
  return found;
}

template <class Args>
void check_that_factors_are_rounded(const Codelet<Args>& codelet, const Args& args,
                                    const Values& first, const Values& second, std::int64_t count) {
  check_that_factors_are_rounded(
      codelet.name(), rounding(codelet), first, second,
      [&](const Implementation<Args>& implementation, Values a, Values b) {
        Values result(size(count));
        run_on_values(implementation, args, a, b, result);
        return result;
      });
}

TEST(Bf16, convolutions_multiply_rounded_numbers) {
  const ConvShape shape{.n = 2,
                        .h = 9,
                        .w = 7,
                        .c = 16,
                        .filters = 24,
                        .kernel_h = 3,
                        .kernel_w = 3,
                        .pad_h = 1,
                        .pad_w = 1};
  const Values src = some_values(shape.src_count(), 1);
  const Values weights = some_values(shape.weights_count(), 2);
  const Values diff_dst = some_values(shape.dst_count(), 3);
  check_that_factors_are_rounded(conv_forward, {.shape = shape}, src, weights, shape.dst_count());
  check_that_factors_are_rounded(conv_backward_weights, {.shape = shape}, src, diff_dst,
                                 shape.weights_count());
  check_that_factors_are_rounded(conv_backward_data, {.shape = shape}, diff_dst, weights,
                                 shape.src_count());
}

#ifdef OMNI_CUDA
template <class Args>
void check_kernel(Kernel<Args> kernel, const Args& args, const Values& first, const Values& second,
                  std::int64_t count, std::int64_t biases = 0) {
  check_that_factors_are_rounded(
      "kernel", std::vector<Implementation<Args>>{{"cuda", kernel, nullptr, Role::gpu}}, first,
      second, [&](const Implementation<Args>& implementation, Values a, Values b) {
        Values result(size(count)), bias(size(biases));
        if (biases == 0)
          run_on_values(implementation, args, a, b, result);
        else if constexpr (std::is_same_v<Args, LocalForwardArgs>)
          run_on_values(implementation, args, a, b, bias, result);
        else
          run_on_values(implementation, args, a, b, result, bias);
        return result;
      });
}

// Convolutions that cuDNN refuses, and local layers, are products of cuBLAS.
TEST(Bf16, lowered_layers_multiply_rounded_numbers_on_a_gpu) {
  if (!gpu::present()) GTEST_SKIP() << "no GPU";
  const ConvShape shape{.n = 3,
                        .h = 9,
                        .w = 7,
                        .c = 16,
                        .filters = 24,
                        .kernel_h = 3,
                        .kernel_w = 3,
                        .pad_h = 1,
                        .pad_w = 1,
                        .groups = 2};
  Values src = some_values(shape.src_count(), 1), weights = some_values(shape.weights_count(), 2);
  const Values diff_dst = some_values(shape.dst_count(), 3);
  check_kernel<ConvForwardArgs>(gpu::conv_forward_lowered, {.shape = shape}, src, weights,
                                shape.dst_count());
  check_kernel<ConvWeightsArgs>(gpu::conv_backward_weights_lowered, {.shape = shape}, src, diff_dst,
                                shape.weights_count());
  check_kernel<ConvDataArgs>(gpu::conv_backward_data_lowered, {.shape = shape}, diff_dst, weights,
                             shape.src_count());
  LocalShape local{shape};
  local.conv.groups = 1;
  weights = some_values(local.weights_count(), 2);
  check_kernel<LocalForwardArgs>(gpu::local_forward, {.shape = local}, src, weights,
                                 shape.dst_count(), local.outputs());
  check_kernel<LocalBackwardArgs>(gpu::local_backward_weights, {.shape = local}, src, diff_dst,
                                  local.weights_count(), local.outputs());
  check_kernel<LocalBackwardArgs>(gpu::local_backward_data, {.shape = local}, diff_dst, weights,
                                  shape.src_count());
}
#endif

// "winograd" rounds transformed numbers, so its error is larger than that of rounded factors.
// "winograd_8x8" does not round at all.
template <class Args>
void check_winograd(const Codelet<Args>& codelet, const ConvShape& shape, Values a, Values b,
                    std::int64_t results) {
  int checked = 0;
  for (const Implementation<Args>& each : implementations_here(codelet)) {
    const std::string_view name = each.name;
    if (name != "winograd" && name != "winograd_8x8") continue;
    ++checked;
    Values in[2]{Values(size(results)), Values(size(results))};
    for (const bool bf16 : {false, true}) {
      const Deterministic policy(bf16 ? Precision::bf16 : Precision::fp32);
      run_on_values(each, Args{.shape = shape}, a, b, in[bf16]);
    }
    const double error = relative_error<float, float>(in[1], in[0]);
    if (name == "winograd")
      EXPECT_GT(error, 0x1p-8) << codelet.name();
    else
      EXPECT_EQ(error, 0) << codelet.name();
  }
  EXPECT_EQ(checked, 2) << codelet.name();
}

TEST(Bf16, winograd_rounds_in_small_tiles_only) {
  if (bf16_in_vain() != nullptr) GTEST_SKIP() << bf16_in_vain();
  const ConvShape shape{
      .n = 2, .h = 9, .w = 7, .c = 32, .filters = 32, .kernel_h = 3, .kernel_w = 3};
  const Values src = some_values(shape.src_count(), 1),
               weights = some_values(shape.weights_count(), 2),
               diff_dst = some_values(shape.dst_count(), 3);
  check_winograd(conv_forward, shape, src, weights, shape.dst_count());
  check_winograd(conv_backward_weights, shape, src, diff_dst, shape.weights_count());
  check_winograd(conv_backward_data, shape, diff_dst, weights, shape.src_count());
}

TEST(Bf16, connected_layers_multiply_rounded_numbers) {
  const ConnectedShape shape{.n = 17, .inputs = 130, .outputs = 67};
  const Values src = some_values(shape.src_count(), 1);
  const Values weights = some_values(shape.weights_count(), 2);
  const Values diff_dst = some_values(shape.dst_count(), 3);
  check_that_factors_are_rounded(connected_forward, {.shape = shape}, src, weights,
                                 shape.dst_count());
  check_that_factors_are_rounded(connected_backward_weights, {.shape = shape}, src, diff_dst,
                                 shape.weights_count());
  check_that_factors_are_rounded(connected_backward_data, {.shape = shape}, diff_dst, weights,
                                 shape.src_count());
  // Weights of 0 with a learning rate of 1 become the negative gradient.
  const ExchangeArgs rule{.learning_rate = 1};
  check_that_factors_are_rounded(
      connected_backward_update.name(), rounding(connected_backward_update), src, diff_dst,
      [&](const Implementation<ConnectedUpdateArgs>& implementation, Values a, Values b) {
        Values updated(size(shape.weights_count())), velocity(updated), bias(size(shape.outputs)),
            bias_velocity(bias);
        run_on_values(implementation, ConnectedUpdateArgs{shape, rule, rule}, a, b, updated,
                      velocity, bias, bias_velocity);
        return updated;
      });
}

// The gradient of a bias is a sum without products, so nothing is rounded.
template <class Args, class Shape>
void check_bias_gradient(const Codelet<Args>& codelet, const Shape& shape, std::int64_t biases) {
  const Args args{.shape = shape, .has_bias = true};
  for (const Implementation<Args>& each : implementations_here(codelet)) {
    if (each.supports != nullptr && !each.supports(args)) continue;
    SCOPED_TRACE(codelet.name() + " (" + each.name + ")");
    const auto gradient = [&](Precision precision) {
      const Deterministic policy(precision);
      Values src = some_values(shape.src_count(), 1), diff_dst = some_values(shape.dst_count(), 2);
      Values diff_weights(size(shape.weights_count())), diff_bias(size(biases));
      run_on_values(each, args, src, diff_dst, diff_weights, diff_bias);
      return diff_bias;
    };
    const Values bf16 = gradient(Precision::bf16), exact = gradient(Precision::fp32);
    EXPECT_LT(relative_error(std::span(bf16), std::span(exact)), 1e-5);
  }
}

TEST(Bf16, gradients_of_biases_are_exact) {
  check_bias_gradient(
      conv_backward_weights,
      ConvShape{.n = 2, .h = 8, .w = 8, .c = 16, .filters = 32, .kernel_h = 3, .kernel_w = 3}, 32);
  check_bias_gradient(connected_backward_weights,
                      ConnectedShape{.n = 9, .inputs = 20, .outputs = 7}, 7);
}

}  // namespace
}  // namespace omni::gradcheck
