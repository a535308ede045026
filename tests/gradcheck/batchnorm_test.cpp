#include "codelets/normalise/batchnorm.hpp"

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::size_t batchnorm_channels(const auto& args) { return static_cast<std::size_t>(args.c); }
std::size_t batchnorm_values(const auto& args) {
  return static_cast<std::size_t>(args.rows * args.c);
}
double rows_of(const auto& args) { return static_cast<double>(args.rows); }

// Calls a reference kernel with the buffers of a check, all in double precision.
template <auto kernel, std::size_t count, class Args>
void on_doubles(const Args& args, const Buffers& buffers) {
  [&]<std::size_t... i>(std::index_sequence<i...>) { kernel(args, buffers.get<double>(i)...); }
  (std::make_index_sequence<count>());
}

const std::vector<Case<BatchnormSliceArgs>> kSlices{
    {"usual", {.rows = 98, .c = 64}},   {"one value", {.rows = 1, .c = 1}},
    {"one row", {.rows = 1, .c = 100}}, {"one channel", {.rows = 1001, .c = 1}},
    {"colours", {.rows = 333, .c = 3}}, {"odd", {.rows = 45, .c = 77}},
    {"wide", {.rows = 7, .c = 600}},    {"more than a GPU's threads", {.rows = 600, .c = 33}},
};

const Fill kPositive = uniform(0.2f, 2);

TEST(BatchnormForward, partial) {
  const auto operation = [](Fill fill) {
    return Operation<BatchnormSliceArgs>{
        .operands = [fill](const BatchnormSliceArgs& args) -> std::vector<Operand> {
          return {input(batchnorm_values(args), fill), output(2 * batchnorm_channels(args))};
        },
        .reference = on_doubles<reference::batchnorm_partial<double>, 2, BatchnormSliceArgs>,
    };
  };
  check_implementations(batchnorm_partial, kSlices, operation(uniform(-1, 1)));
  // The variance must stay exact although the mean is far from zero.
  check_implementations(batchnorm_partial, kSlices, operation(uniform(1000, 1001)));
}

TEST(BatchnormForward, merge_and_finish) {
  const auto merge_operands = [](const BatchnormMergeArgs& args) -> std::vector<Operand> {
    const std::size_t count = 2 * batchnorm_channels(args);
    return {input(count, kPositive),
            args.rows_before == 0 ? output(count) : in_place(count, kPositive)};
  };
  const std::vector<Case<BatchnormMergeArgs>> cases{
      {"first", {.c = 5, .rows_before = 0, .rows = 7}},
      {"later", {.c = 33, .rows_before = 100, .rows = 7}},
      {"one", {.c = 1, .rows_before = 1, .rows = 1}}};
  check_implementations(
      batchnorm_merge, cases,
      {.operands = merge_operands,
       .reference = on_doubles<reference::batchnorm_merge<double>, 2, BatchnormMergeArgs>});
  check_implementations(
      batchnorm_merge_sums, cases,
      {.operands = merge_operands,
       .reference = on_doubles<reference::batchnorm_merge_sums<double>, 2, BatchnormMergeArgs>});
  check_implementations(batchnorm_finish,
                        {{"usual", {.c = 19, .rows = 12}},
                         {"one value", {.c = 1, .rows = 1, .momentum = 0.9f}},
                         {"large epsilon", {.c = 5, .rows = 12, .epsilon = 0.5}},
                         {"frozen", {.c = 5, .rows = 12, .epsilon = 0.5, .frozen = true}},
                         {"counted", {.c = 19, .rows = 12, .momentum = 0.9f, .counts = true}}},
                        {.operands = [](const BatchnormFinishArgs& args) -> std::vector<Operand> {
                           const std::size_t c = batchnorm_channels(args);
                           std::vector<Operand> all{input(2 * c, kPositive), output(c), output(c),
                                                    in_place(c), in_place(c, kPositive)};
                           if (args.counts) all.push_back(in_place(c, kPositive));
                           return all;
                         },
                         .reference =
                             [](const BatchnormFinishArgs& args, const Buffers& b) {
                               reference::batchnorm_finish(
                                   args, b.get<double>(0), b.get<double>(1), b.get<double>(2),
                                   b.get<double>(3), b.get<double>(4),
                                   args.counts ? b.get<double>(5) : nullptr);
                             }});

  // The running averages are weighted sums over mini-batches, divided by the sum of the weights.
  const double momentum = 0.75, batches[] = {3, -1, 5};
  double mean = 7, variance = 9, averaged = 0, sum = 0, weights = 0, unused[2];
  for (const double batch : batches) {
    const double total[] = {batch, 2 * batch * batch};
    reference::batchnorm_finish({.c = 1, .rows = 3, .momentum = 0.75f, .counts = true}, total,
                                &unused[0], &unused[1], &mean, &variance, &averaged);
    sum = momentum * sum + batch;
    weights = momentum * weights + 1;
    EXPECT_NEAR(mean, sum / weights, 1e-12);
    EXPECT_NEAR(averaged, weights, 1e-12);
  }
  EXPECT_NEAR(variance, (momentum * (momentum * 9 + 1) + 25) / weights, 1e-12);
}

TEST(BatchnormForward, apply) {
  std::vector<Case<BatchnormApplyArgs>> cases{
      {"large epsilon", {.rows = 7, .c = 3, .from_variance = true, .epsilon = 0.5}}};
  for (const auto& slice : kSlices)
    for (const bool from_variance : {false, true})
      for (const bool adds : {false, true})
        cases.push_back({slice.what,
                         {.rows = slice.args.rows,
                          .c = slice.args.c,
                          .from_variance = from_variance,
                          .activation = from_variance ? Activation::linear : Activation::leaky,
                          .adds = adds}});
  check_implementations(
      batchnorm_apply, cases,
      {.operands = [](const BatchnormApplyArgs& args) -> std::vector<Operand> {
         const std::size_t c = batchnorm_channels(args);
         std::vector<Operand> all{
             input(batchnorm_values(args)), input(c), input(c, kPositive), input(c), input(c),
             output(batchnorm_values(args))};
         if (args.adds) all.push_back(input(batchnorm_values(args)));
         return all;
       },
       .reference =
           [](const BatchnormApplyArgs& args, const Buffers& b) {
             reference::batchnorm_apply(args, b.get<double>(0), b.get<double>(1), b.get<double>(2),
                                        b.get<double>(3), b.get<double>(4), b.get<double>(5),
                                        args.adds ? b.get<double>(6) : nullptr);
           }});
}

TEST(BatchnormBackward, implementations_agree) {
  std::vector<Case<BatchnormReduceArgs>> reduce;
  std::vector<Case<BatchnormBackwardArgs>> data;
  const auto add = [&](const char* what, const BatchnormSliceArgs& slice, Activation activation) {
    reduce.push_back({what, {.rows = slice.rows, .c = slice.c, .activation = activation}});
    for (const bool in_place : {false, true})
      data.push_back({what,
                      {.rows = slice.rows,
                       .c = slice.c,
                       .batch_rows = 2 * slice.rows,
                       .activation = activation,
                       .in_place = in_place}});
  };
  for (const auto& slice : kSlices) add(slice.what, slice.args, Activation::linear);
  // Activations with a kink or a step in their gradient are left out. Only one of the two
  // precisions might be beyond the kink.
  for (const Activation activation : {Activation::logistic, Activation::tanh, Activation::loggy,
                                      Activation::swish, Activation::mish, Activation::gelu})
    add(activation_name(activation).data(), kSlices[0].args, activation);
  const auto operands = [](const auto& args) -> std::vector<Operand> {
    const std::size_t c = batchnorm_channels(args);
    return {input(batchnorm_values(args)),
            input(batchnorm_values(args)),
            input(c),
            input(c, kPositive),
            input(c),
            input(c)};
  };
  check_implementations(
      batchnorm_backward_reduce, reduce,
      {.operands =
           [=](const BatchnormReduceArgs& args) {
             std::vector<Operand> all = operands(args);
             all.push_back(output(2 * batchnorm_channels(args)));
             return all;
           },
       .reference =
           on_doubles<reference::batchnorm_backward_reduce<double>, 7, BatchnormReduceArgs>,
       .terms = rows_of<BatchnormReduceArgs>});
  check_implementations(
      batchnorm_parameter_gradient, {{"usual", {.c = 21}}, {"one channel", {.c = 1}}},
      {.operands = [](const BatchnormParameterArgs& args) -> std::vector<Operand> {
         const std::size_t c = batchnorm_channels(args);
         return {input(2 * c), accumulated(c), accumulated(c)};
       },
       .reference =
           on_doubles<reference::batchnorm_parameter_gradient<double>, 3, BatchnormParameterArgs>});
  check_implementations(batchnorm_backward_data, data,
                        {.operands =
                             [=](const BatchnormBackwardArgs& args) {
                               std::vector<Operand> all = operands(args);
                               all.push_back(input(2 * batchnorm_channels(args)));
                               if (args.in_place)
                                 all[1] = in_place(batchnorm_values(args));
                               else
                                 all.push_back(output(batchnorm_values(args)));
                               return all;
                             },
                         .reference =
                             [](const BatchnormBackwardArgs& args, const Buffers& b) {
                               reference::batchnorm_backward_data(
                                   args, b.get<double>(0), b.get<double>(1), b.get<double>(2),
                                   b.get<double>(3), b.get<double>(4), b.get<double>(5),
                                   b.get<double>(6), b.get<double>(args.in_place ? 1 : 7));
                             }});
}

// All parameters are powers of two, so no rounding moves a value across the kink of relu.
TEST(BatchnormBackward, relu_stops_what_is_not_positive) {
  constexpr int kChannels = 20;
  const std::size_t count = 6 * kChannels;
  std::vector<float> src(count), diff(count), mean(kChannels, 1), inv_std(kChannels, 0.5f);
  std::vector<float> scale(kChannels, 4), shift(kChannels, -2), total(2 * kChannels), out(count);
  for (std::size_t i = 0; i < count; ++i) {
    src[i] = static_cast<float>(i / kChannels);  // normalised, scaled: 2 (x - 1) - 2
    diff[i] = static_cast<float>(i + 1);
  }
  const BatchnormBackwardArgs args{
      .rows = 6, .c = kChannels, .batch_rows = 6, .activation = Activation::relu};
  for (const auto& implementation : implementations_here(batchnorm_backward_data)) {
    run_on_values(implementation, args, src, diff, mean, inv_std, scale, shift, total, out);
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_EQ(out[i], src[i] > 2 ? 2 * diff[i] : 0) << implementation.name << " at " << i;
  }
}

}  // namespace
}  // namespace omni::gradcheck
