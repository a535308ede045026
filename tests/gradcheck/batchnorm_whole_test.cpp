// These tests check batch normalisation in one task. It has the exactness and the bits of its
// separate parts, and the right access modes.
#include "codelets/functions/shortcut_add.hpp"
#include "codelets/normalise/batchnorm.hpp"

#include "codelets/normalise/batchnorm_whole.hpp"
#include "runtime/tasks/task_capture.hpp"
#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

using WholeForward = BatchnormForwardArgs;
using WholeBackward = BatchnormWholeBackwardArgs;
using WholeDiffSrc = WholeBackward::DiffSrc;

struct WholeShape {
  const char* what;
  std::int64_t rows;
  int c;
};
constexpr WholeShape kWholeShapes[]{
    {"usual", 98, 64},   {"one value", 1, 1},
    {"one row", 1, 100}, {"one channel", 1001, 1},
    {"colours", 333, 3}, {"odd", 45, 77},
    {"wide", 7, 600},    {"more than a GPU's threads", 600, 33},
};

std::vector<Case<WholeForward>> whole_forward_cases() {
  std::vector<Case<WholeForward>> cases;
  for (const auto& [what, rows, c] : kWholeShapes)
    for (const bool adds : {false, true})
      for (const Activation activation : {Activation::linear, Activation::leaky, Activation::swish})
        cases.push_back(
            {what,
             {.rows = rows, .c = c, .momentum = 0.9f, .activation = activation, .adds = adds}});
  return cases;
}

// As in the test of the parts, activations with a kink or a step in their gradient are left out.
std::vector<Case<WholeBackward>> whole_backward_cases() {
  std::vector<Case<WholeBackward>> cases;
  for (const auto& [what, rows, c] : kWholeShapes)
    for (const WholeDiffSrc diff_src :
         {WholeDiffSrc::none, WholeDiffSrc::in_place, WholeDiffSrc::apart})
      for (const Activation activation : {Activation::linear, Activation::tanh, Activation::swish})
        cases.push_back(
            {what, {.rows = rows, .c = c, .activation = activation, .diff_src = diff_src}});
  for (const auto& [what, rows, c] : kWholeShapes)
    for (const Activation activation : {Activation::linear, Activation::relu, Activation::tanh})
      cases.push_back({what,
                       {.rows = rows,
                        .c = c,
                        .activation = activation,
                        .diff_src = WholeDiffSrc::in_place,
                        .of_sum = true}});
  return cases;
}

const Fill kWholeSpread = uniform(0.2f, 2);

std::vector<Operand> whole_forward_operands(const WholeForward& args) {
  const std::size_t c = size(args.c), values = size(args.rows * args.c);
  Operand rolling_variance = accumulated(c);
  rolling_variance.fill = kWholeSpread;
  std::vector<Operand> all{input(values), output(2 * c),  output(c),
                           output(c),     accumulated(c), rolling_variance,
                           input(c),      input(c),       output(values)};
  if (args.adds) all.push_back(input(values));
  return all;
}

std::vector<Operand> whole_backward_operands(const WholeBackward& args) {
  const std::size_t c = size(args.c), values = size(args.rows * args.c);
  const bool in_place_ = args.diff_src == WholeDiffSrc::in_place;
  std::vector<Operand> all{input(values), in_place_ ? in_place(values) : input(values),
                           input(c),      input(c, kWholeSpread),
                           input(c),      input(c),
                           output(2 * c), accumulated(c),
                           accumulated(c)};
  if (args.diff_src == WholeDiffSrc::apart) all.push_back(output(values));
  if (args.of_sum) all.insert(all.end(), {input(values), output(values)});
  return all;
}

TEST(BatchnormWhole, implementations_agree) {
  check_implementations(
      batchnorm_forward, whole_forward_cases(),
      {.operands = whole_forward_operands,
       .reference = [](const WholeForward& args, const Buffers& b) {
         const auto at = [&](std::size_t i) { return b.get<double>(i); };
         std::vector<double> partial(2 * size(args.c));
         reference::batchnorm_partial({args.rows, args.c}, at(0), partial.data());
         reference::batchnorm_merge({args.c, 0, args.rows}, partial.data(), at(1));
         reference::batchnorm_finish({args.c, args.rows, args.momentum}, at(1), at(2), at(3), at(4),
                                     at(5), static_cast<double*>(nullptr));
         reference::batchnorm_apply(
             {.rows = args.rows, .c = args.c, .activation = args.activation, .adds = args.adds},
             at(0), at(2), at(3), at(6), at(7), at(8), args.adds ? at(9) : nullptr);
       }});
  check_implementations(
      batchnorm_backward, whole_backward_cases(),
      {.operands = whole_backward_operands,
       .reference =
           [](const WholeBackward& args, const Buffers& b) {
             const auto at = [&](std::size_t i) { return b.get<double>(i); };
             std::vector<double> sums(2 * size(args.c));
             if (args.of_sum) {
               reference::residual_backward(
                   {.count = args.rows * args.c, .activation = args.activation}, at(9), at(1),
                   at(10));
               reference::batchnorm_backward_reduce({args.rows, args.c}, at(0), at(1), at(2), at(3),
                                                    at(4), at(5), sums.data());
             } else {
               reference::batchnorm_backward_reduce({args.rows, args.c, args.activation}, at(0),
                                                    at(1), at(2), at(3), at(4), at(5), sums.data());
             }
             reference::batchnorm_merge_sums({args.c, 0, args.rows}, sums.data(), at(6));
             reference::batchnorm_parameter_gradient({args.c}, at(6), at(7), at(8));
             if (args.diff_src != WholeDiffSrc::none)
               reference::batchnorm_backward_data(
                   {args.rows, args.c, args.rows,
                    args.of_sum ? Activation::linear : args.activation},
                   at(0), at(1), at(2), at(3), at(4), at(5), at(6),
                   at(args.diff_src == WholeDiffSrc::in_place ? 1 : 9));
           },
       .terms = [](const WholeBackward& args) { return static_cast<double>(args.rows); },
       // With a single row, nearly all of the gradient may cancel out.
       .tolerance = 2e-5});
}

// Runs the implementation of `part` with the name `whole`. Without one it runs, on CPUs, the
// reference.
template <class Args>
void run_part(const Codelet<Args>& part, const std::string& whole, const Args& args,
              const Buffers& buffers, const std::vector<std::size_t>& places) {
  std::vector<void*> own;
  for (const std::size_t place : places) own.push_back(buffers.get<void>(place));
  for (const Implementation<Args>& each : part.implementations())
    if (each.name == whole || (each.role == Role::reference && whole != "cuda"))
      return each.kernel(args, Buffers(own), DeviceContext::current());
  FAIL() << part.name() << " has no implementation for " << whole;
}

// Infinite values must give the same bits, too, so that a net that diverges does so in the same
// way.
const Fill kSomeInfinite = [](Draws& draws) {
  const float value = draws.uniform(-1, 1);
  return draws.below(50) == 0 ? INFINITY : value;
};

// Compares every implementation with the separate tasks for a single slice. Those have one more
// buffer, the last one, from which merge reads. run_parts() returns whether the bits must be equal.
template <class Args, class Parts>
void expect_bits_of_parts(const Codelet<Args>& whole, const std::vector<Case<Args>>& cases,
                          std::vector<Operand> (*operands_of)(const Args&), Parts run_parts) {
  for (const Implementation<Args>& each : implementations_here(whole))
    for (const Case<Args>& one : cases)
      for (const Fill& src : {uniform(-1, 1), kSomeInfinite}) {
        SCOPED_TRACE(whole.name() + " (" + each.name + "), " + one.what);
        std::vector<Operand> operands = operands_of(one.args);
        const std::size_t partial = operands.size();
        operands.push_back(output(2 * size(one.args.c)));
        operands[0].fill = src;
        const auto run = [&](const std::function<void(const Buffers&)>& kernels) {
          return run_on<float>(operands, 7, kernels, each.role == Role::gpu);
        };
        const auto together = run([&](const Buffers& buffers) {
          each.kernel(one.args, buffers, DeviceContext::current());
        });
        bool same = true;
        const auto apart = run([&](const Buffers& buffers) {
          same = run_parts(each.name, one.args, buffers, partial);
        });
        if (!same) continue;
        for (std::size_t i = 0; i < partial; ++i)
          EXPECT_TRUE(together[i].same_data(apart[i])) << "in buffer " << i;
      }
}

TEST(BatchnormWhole, leaves_the_bits_of_its_parts) {
  expect_bits_of_parts<WholeForward>(
      batchnorm_forward, whole_forward_cases(), whole_forward_operands,
      [](const char* name, const WholeForward& args, const Buffers& b, std::size_t partial) {
        const auto& [rows, c, momentum, activation, adds] = args;
        run_part(batchnorm_partial, name, {rows, c}, b, {0, partial});
        run_part(batchnorm_merge, name, {c, 0, rows}, b, {partial, 1});
        run_part(batchnorm_finish, name, {c, rows, momentum}, b, {1, 2, 3, 4, 5});
        run_part(batchnorm_apply, name, {rows, c, false, activation, adds}, b,
                 adds ? std::vector<std::size_t>{0, 2, 3, 6, 7, 8, 9}
                      : std::vector<std::size_t>{0, 2, 3, 6, 7, 8});
        return true;
      });
  expect_bits_of_parts<WholeBackward>(
      batchnorm_backward, whole_backward_cases(), whole_backward_operands,
      [](const char* name, const WholeBackward& args, const Buffers& b, std::size_t partial) {
        const auto& [rows, c, activation, diff_src, of_sum] = args;
        if (of_sum) {  // the residual block's part in a task of its own
          // On a GPU the residual block's separate pass adds in another order, so its bits differ.
          if (std::string_view(name) == "cuda") return false;
          const ActivationArgs sum{.count = rows * c, .activation = activation};
          run_part(residual_backward, name, sum, b, {9, 1, 10});
          run_part(batchnorm_backward_reduce, name, {rows, c}, b, {0, 1, 2, 3, 4, 5, partial});
          run_part(batchnorm_merge_sums, name, {c, 0, rows}, b, {partial, 6});
          run_part(batchnorm_parameter_gradient, name, {c}, b, {6, 7, 8});
          const BatchnormBackwardArgs data{rows, c, rows, Activation::linear, true};
          run_part(batchnorm_backward_data, name, data, b, {0, 1, 2, 3, 4, 5, 6});
          return true;
        }
        run_part(batchnorm_backward_reduce, name, {rows, c, activation}, b,
                 {0, 1, 2, 3, 4, 5, partial});
        run_part(batchnorm_merge_sums, name, {c, 0, rows}, b, {partial, 6});
        run_part(batchnorm_parameter_gradient, name, {c}, b, {6, 7, 8});
        if (diff_src == WholeDiffSrc::none) return true;
        const bool in_place_ = diff_src == WholeDiffSrc::in_place;
        std::vector<std::size_t> places{0, 1, 2, 3, 4, 5, 6};
        if (!in_place_) places.push_back(9);
        run_part(batchnorm_backward_data, name, {rows, c, rows, activation, in_place_}, b, places);
        return true;
      });
}

// Expects that the task has these tensors, with the access modes of the operands. The checks of the
// operands find values that are wrongly written, not written, or overwritten.
void expect_accesses(const std::vector<CapturedTask>& tasks, const std::vector<Operand>& operands,
                     const std::vector<const Tensor*>& tensors) {
  ASSERT_EQ(tasks.size(), 1u);
  ASSERT_EQ(tasks[0].uses.size(), operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    EXPECT_EQ(tasks[0].uses[i].part.tensor, tensors[i]) << i;
    EXPECT_EQ(tasks[0].uses[i].mode, operands[i].mode) << i;
  }
}

TEST(BatchnormWhole, accesses_are_those_of_the_check) {
  Tensor src("src", 6), diff_dst("diff_dst", 6), diff_src("diff_src", 6), dst("dst", 6);
  Tensor mean("mean", 3), inv_std("inv_std", 3), scale("scale", 3), shift("shift", 3);
  Tensor one("one", 3), other("other", 3), total("total", 6), addend("addend", 6);
  for (const Tensor* added : std::initializer_list<const Tensor*>{nullptr, &addend})
    expect_accesses(task_capture::capture_tasks([&] {
                      submit_batchnorm_forward({.rows = 2, .c = 3}, src, total, mean, inv_std, one,
                                               other, scale, shift, added, dst);
                    }),
                    whole_forward_operands({.rows = 2, .c = 3, .adds = added != nullptr}),
                    {&src, &total, &mean, &inv_std, &one, &other, &scale, &shift, &dst, added});
  for (const auto& [wanted, into] : std::initializer_list<std::pair<WholeDiffSrc, const Tensor*>>{
           {WholeDiffSrc::none, nullptr},
           {WholeDiffSrc::in_place, &diff_dst},
           {WholeDiffSrc::apart, &diff_src}})
    expect_accesses(task_capture::capture_tasks([&, to = into] {
                      submit_batchnorm_backward({.rows = 2, .c = 3}, src, diff_dst, mean, inv_std,
                                                scale, shift, total, one, other, to);
                    }),
                    whole_backward_operands({.rows = 2, .c = 3, .diff_src = wanted}),
                    {&src, &diff_dst, &mean, &inv_std, &scale, &shift, &total, &one, &other, into});
  const BatchnormSum sum{dst, diff_src};
  const WholeBackward of_sum{.rows = 2, .c = 3, .diff_src = WholeDiffSrc::in_place, .of_sum = true};
  expect_accesses(
      task_capture::capture_tasks([&] {
        submit_batchnorm_backward({.rows = 2, .c = 3}, src, diff_dst, mean, inv_std, scale, shift,
                                  total, one, other, &diff_dst, &sum);
      }),
      whole_backward_operands(of_sum),
      {&src, &diff_dst, &mean, &inv_std, &scale, &shift, &total, &one, &other, &dst, &diff_src});
}

void expect_sum_of_costs(const Cost& whole, std::initializer_list<Cost> parts) {
  Cost sum;
  for (const Cost& part : parts) sum = {sum.flops + part.flops, sum.bytes + part.bytes};
  EXPECT_DOUBLE_EQ(whole.flops, sum.flops);
  EXPECT_DOUBLE_EQ(whole.bytes, sum.bytes);
}

TEST(BatchnormWhole, costs_what_its_parts_cost) {
  for (const bool adds : {false, true})
    expect_sum_of_costs(batchnorm_forward.cost({.rows = 45, .c = 77, .adds = adds}),
                        {batchnorm_partial.cost({45, 77}), batchnorm_merge.cost({77, 0, 45}),
                         batchnorm_finish.cost({77, 45}),
                         batchnorm_apply.cost({.rows = 45, .c = 77, .adds = adds})});
  const Cost reduce = batchnorm_backward_reduce.cost({45, 77});
  const Cost parameters = batchnorm_parameter_gradient.cost({77});
  expect_sum_of_costs(batchnorm_backward.cost({.rows = 45, .c = 77}), {reduce, parameters});
  expect_sum_of_costs(
      batchnorm_backward.cost({.rows = 45, .c = 77, .diff_src = WholeDiffSrc::apart}),
      {reduce, parameters, batchnorm_backward_data.cost({45, 77, 45})});
  expect_sum_of_costs(batchnorm_backward.cost({.rows = 45, .c = 77, .of_sum = true}),
                      {batchnorm_residual_reduce.cost({45, 77}), parameters,
                       batchnorm_backward_data.cost({45, 77, 45})});
}

}  // namespace
}  // namespace omni::gradcheck
