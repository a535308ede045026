// These tests check the backward pass of a residual block's sum, which is also the first backward
// pass of its batch normalisation.
#include "codelets/normalise/batchnorm.hpp"

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::vector<Case<BatchnormReduceArgs>> residual_reduce_cases() {
  std::vector<Case<BatchnormReduceArgs>> cases;
  for (const auto& [what, rows, c] : std::initializer_list<std::tuple<const char*, int, int>>{
           {"usual", 98, 64},
           {"one value", 1, 1},
           {"one row", 1, 100},
           {"one channel", 1001, 1},
           {"colours", 333, 3},
           {"odd", 45, 77},
           {"many rows for few threads", 5000, 6},
           {"wide", 7, 600}})
    for (const Activation activation :
         {Activation::linear, Activation::relu, Activation::leaky, Activation::tanh})
      cases.push_back({what, {.rows = rows, .c = c, .activation = activation}});
  return cases;
}

std::vector<Operand> residual_reduce_operands(const BatchnormReduceArgs& args) {
  const std::size_t c = size(args.c), values = size(args.rows * args.c);
  return {input(values), input(values), input(values), input(c), input(c, uniform(0.2f, 2)),
          output(2 * c), output(values)};
}

TEST(BatchnormResidual, implementations_agree) {
  check_implementations(
      batchnorm_residual_reduce, residual_reduce_cases(),
      {.operands = residual_reduce_operands,
       .reference =
           [](const BatchnormReduceArgs& args, const Buffers& b) {
             const auto at = [&](std::size_t i) { return b.get<double>(i); };
             reference::batchnorm_residual_reduce(args, at(0), at(1), at(2), at(3), at(4), at(5),
                                                  at(6));
           },
       .terms = [](const BatchnormReduceArgs& args) { return static_cast<double>(args.rows); }});
}

}  // namespace
}  // namespace omni::gradcheck
