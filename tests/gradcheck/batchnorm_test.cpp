#include "codelets/normalise/batchnorm.hpp"

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::size_t channels(const auto& args) { return static_cast<std::size_t>(args.c); }
std::size_t values(const auto& args) { return static_cast<std::size_t>(args.rows * args.c); }
double rows_of(const auto& args) { return static_cast<double>(args.rows); }

// Calls a reference template on the double buffers of a check, in order.
template <auto kernel, std::size_t count, class Args>
void on_doubles(const Args& args, const Buffers& buffers) {
  [&]<std::size_t... i>(std::index_sequence<i...>) { kernel(args, buffers.get<double>(i)...); }
  (std::make_index_sequence<count>());
}

const std::vector<Case<BatchnormSliceArgs>> kSlices{
    {"usual", {.rows = 98, .c = 64}},   {"one value", {.rows = 1, .c = 1}},
    {"one row", {.rows = 1, .c = 100}}, {"one channel", {.rows = 1001, .c = 1}},
    {"colours", {.rows = 333, .c = 3}}, {"odd", {.rows = 45, .c = 77}},
    {"wide", {.rows = 7, .c = 600}},
};

const Fill kPositive = uniform(0.2f, 2);

TEST(BatchnormForward, partial) {
  const auto operation = [](Fill fill) {
    return Operation<BatchnormSliceArgs>{
        .operands = [fill](const BatchnormSliceArgs& args) -> std::vector<Operand> {
          return {input(values(args), fill), output(2 * channels(args))};
        },
        .reference = on_doubles<reference::batchnorm_partial<double>, 2, BatchnormSliceArgs>,
    };
  };
  check_implementations(batchnorm_partial, kSlices, operation(uniform(-1, 1)));
  // A mean far from zero must not eat the variance.
  check_implementations(batchnorm_partial, kSlices, operation(uniform(1000, 1001)));
}

TEST(BatchnormForward, merge_and_finish) {
  const auto merge_operands = [](const BatchnormMergeArgs& args) -> std::vector<Operand> {
    const std::size_t count = 2 * channels(args);
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
  check_implementations(
      batchnorm_finish,
      {{"usual", {.c = 19, .rows = 12}}, {"one value", {.c = 1, .rows = 1, .momentum = 0.9f}}},
      {.operands = [](const BatchnormFinishArgs& args) -> std::vector<Operand> {
         const std::size_t c = channels(args);
         return {input(2 * c, kPositive), output(c), output(c), in_place(c),
                 in_place(c, kPositive)};
       },
       .reference = on_doubles<reference::batchnorm_finish<double>, 5, BatchnormFinishArgs>});
}

TEST(BatchnormForward, apply) {
  std::vector<Case<BatchnormApplyArgs>> cases;
  for (const auto& slice : kSlices)
    for (const bool from_variance : {false, true})
      cases.push_back({slice.what,
                       {.rows = slice.args.rows,
                        .c = slice.args.c,
                        .from_variance = from_variance,
                        .activation = from_variance ? Activation::linear : Activation::leaky}});
  check_implementations(
      batchnorm_apply, cases,
      {.operands = [](const BatchnormApplyArgs& args) -> std::vector<Operand> {
         const std::size_t c = channels(args);
         return {input(values(args)), input(c), input(c, kPositive), input(c), input(c),
                 output(values(args))};
       },
       .reference = on_doubles<reference::batchnorm_apply<double>, 6, BatchnormApplyArgs>});
}

TEST(BatchnormBackward, implementations_agree) {
  check_implementations(
      batchnorm_backward_reduce, kSlices,
      {.operands = [](const BatchnormSliceArgs& args) -> std::vector<Operand> {
         const std::size_t c = channels(args);
         return {input(values(args)), input(values(args)), input(c), input(c, kPositive),
                 output(2 * c)};
       },
       .reference = on_doubles<reference::batchnorm_backward_reduce<double>, 5, BatchnormSliceArgs>,
       .terms = rows_of<BatchnormSliceArgs>});
  check_implementations(
      batchnorm_parameter_gradient, {{"usual", {.c = 21}}, {"one channel", {.c = 1}}},
      {.operands = [](const BatchnormParameterArgs& args) -> std::vector<Operand> {
         const std::size_t c = channels(args);
         return {input(2 * c), accumulated(c), accumulated(c)};
       },
       .reference =
           on_doubles<reference::batchnorm_parameter_gradient<double>, 3, BatchnormParameterArgs>});
  std::vector<Case<BatchnormBackwardArgs>> cases;
  for (const auto& slice : kSlices)
    cases.push_back(
        {slice.what,
         {.rows = slice.args.rows, .c = slice.args.c, .batch_rows = 2 * slice.args.rows}});
  check_implementations(
      batchnorm_backward_data, cases,
      {.operands = [](const BatchnormBackwardArgs& args) -> std::vector<Operand> {
         const std::size_t c = channels(args);
         return {input(values(args)), input(values(args)), input(c), input(c, kPositive), input(c),
                 input(2 * c),        output(values(args))};
       },
       .reference =
           on_doubles<reference::batchnorm_backward_data<double>, 7, BatchnormBackwardArgs>});
}

}  // namespace
}  // namespace omni::gradcheck
