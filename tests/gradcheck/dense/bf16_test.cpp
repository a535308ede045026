// What --precision bf16 computes on CPUs: products of rounded numbers. (That the products are right
// is checked with numbers that rounding leaves alone.)
#include "codelets/dense/bf16.hpp"

#include <limits>

#include "codelets/convolution/convolution.hpp"
#include "codelets/dense/connected.hpp"
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

#ifdef OMNI_ONEDNN

template <class Args>
const Implementation<Args>& onednn_of(const Codelet<Args>& codelet) {
  const auto& all = codelet.implementations();
  return *std::ranges::find_if(
      all, [](const auto& each) { return std::string_view(each.name) == "onednn"; });
}

using Values = std::vector<float>;

Values some_values(std::int64_t count, std::uint64_t seed) {
  const std::vector<double> values = random_values(size(count), seed);
  return {values.begin(), values.end()};
}

// first, second: what is multiplied.
template <class Args>
Values product(const Codelet<Args>& codelet, const Args& args, Values first, Values second,
               std::int64_t count, Precision precision) {
  const Deterministic policy(precision);
  Values result(size(count));
  run_on_values(onednn_of(codelet), args, first, second, result);
  return result;
}

template <class Args>
void check_that_factors_are_rounded(const Codelet<Args>& codelet, const Args& args,
                                    const Values& first, const Values& second, std::int64_t count) {
  SCOPED_TRACE(codelet.name());
  const auto rounded = [](Values values) {
    round_to_bf16(values);
    return values;
  };
  const Values bf16 = product(codelet, args, first, second, count, Precision::bf16);
  EXPECT_EQ(bf16, product(codelet, args, rounded(first), rounded(second), count, Precision::bf16));
  const Values exact = product(codelet, args, first, second, count, Precision::fp32);
  const double error = relative_error(std::span(bf16), std::span(exact));
  EXPECT_GT(error, 1e-4);
  EXPECT_LT(error, 0x1p-8);  // of the larger of two factors, whose errors are independent
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
}

#endif

}  // namespace
}  // namespace omni::gradcheck
