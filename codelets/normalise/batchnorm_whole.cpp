#include "codelets/normalise/batchnorm_whole.hpp"

#include <array>
#include <initializer_list>
#include <span>

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

using DiffSrc = BatchnormWholeBackwardArgs::DiffSrc;

// Places has, for each buffer of a part, the number of that buffer in the whole task.
using Places = std::initializer_list<std::size_t>;

// Calls use(codelet, arguments, buffers) for each part, in order. A buffer that a part does not
// access may be any of the task's. On a GPU the last block of a pass also does the work by channel
// that follows it.
void for_each_batchnorm_part(const BatchnormForwardArgs& args, bool on_gpu, auto use) {
  const auto [rows, c, momentum, activation, adds] = args;
  const BatchnormSliceArgs slice{.rows = rows, .c = c, .momentum = momentum};
  use(batchnorm_partial, slice, {0, 1, 2, 3, 4, 5});  // a core uses only the first two
  // The merge reads and writes the same moments, channel by channel. Finite moments of the only
  // slice stay as they are. Infinite ones become NaN, as they do in separate tasks.
  if (!on_gpu) {
    use(batchnorm_merge, BatchnormMergeArgs{.c = c, .rows_before = 0, .rows = rows}, {1, 1});
    use(batchnorm_finish, BatchnormFinishArgs{.c = c, .rows = rows, .momentum = momentum},
        {1, 2, 3, 4, 5});
  }
  use(batchnorm_apply,
      BatchnormApplyArgs{.rows = rows, .c = c, .activation = activation, .adds = adds},
      {0, 2, 3, 6, 7, 8, adds ? std::size_t{9} : 0});
}

// The parts do not include the merge, which would only copy the sums of the first slice.
void for_each_batchnorm_part(const BatchnormWholeBackwardArgs& args, bool on_gpu, auto use) {
  const auto [rows, c, activation, diff_src, of_sum] = args;
  const BatchnormReduceArgs reduce{.rows = rows, .c = c, .activation = activation};
  if (of_sum)
    use(batchnorm_residual_reduce, reduce, {0, 9, 1, 2, 3, 6, 10, 7, 8});
  else
    use(batchnorm_backward_reduce, reduce, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  if (!on_gpu) use(batchnorm_parameter_gradient, BatchnormParameterArgs{.c = c}, {6, 7, 8});
  if (of_sum)
    return use(batchnorm_backward_data,
               BatchnormBackwardArgs{.rows = rows, .c = c, .batch_rows = rows},
               {0, 10, 2, 3, 4, 5, 6, 1});
  if (diff_src == DiffSrc::none) return;
  const bool in_place = diff_src == DiffSrc::in_place;
  use(batchnorm_backward_data,
      BatchnormBackwardArgs{
          .rows = rows, .c = c, .batch_rows = rows, .activation = activation, .in_place = in_place},
      {0, 1, 2, 3, 4, 5, 6, in_place ? std::size_t{1} : 9});
}

// Operations on a few numbers per channel have only a reference kernel on cores.
template <class Args>
Kernel<Args> kernel_in(Role role, const Codelet<Args>& part) {
  const auto& all = part.implementations();
  const auto find = [&](Role wanted) {
    return std::ranges::find(all, wanted, &Implementation<Args>::role);
  };
  const auto found = find(role);
  return (found != all.end() ? found : find(Role::reference))->kernel;
}

template <Role role, class Args>
void batchnorm_parts(const Args& args, const Buffers& buffers, DeviceContext& context) {
  const auto run = [&](const auto& part, const auto& part_args, Places places) {
    std::array<void*, 9> own;
    std::ranges::transform(places, own.begin(), [&](auto at) { return buffers.get<void>(at); });
    const Buffers part_buffers{std::span(own).first(places.size()), buffers.in_bf16()};
    kernel_in(role, part)(part_args, part_buffers, context);
  };
  for_each_batchnorm_part(args, role == Role::gpu, run);
}

Cost batchnorm_parts_cost(const auto& args) {
  Cost sum;
  for_each_batchnorm_part(args, false, [&](const auto& part, const auto& part_args, Places) {
    const Cost cost = part.cost(part_args);
    sum.flops += cost.flops;
    sum.bytes += cost.bytes;
  });
  return sum;
}

template <class Args>
CodeletDefinition<Args> in_one_task(const char* name, BufferSet in_bf16,
                                    std::uint64_t (*footprint)(const Args&)) {
  return {.name = name,
          .color = 0x2ca02c,  // as the parts have
          .implementations =
              {{.name = "vector", .kernel = batchnorm_parts<Role::fast, Args>, .in_bf16 = in_bf16},
               {"reference", batchnorm_parts<Role::reference, Args>, nullptr, Role::reference},
               OMNI_GPU_IMPLEMENTATION((batchnorm_parts<Role::gpu, Args>), in_bf16)},
          .cost = batchnorm_parts_cost<Args>,
          .footprint = footprint};
}

}  // namespace

Codelet<BatchnormForwardArgs> batchnorm_forward(in_one_task<BatchnormForwardArgs>(
    "batchnorm_forward", {0, 8, 9}, [](const BatchnormForwardArgs& args) {
      return footprint_of(args.rows, args.c, args.activation, args.adds);
    }));
Codelet<BatchnormWholeBackwardArgs> batchnorm_backward(in_one_task<BatchnormWholeBackwardArgs>(
    "batchnorm_backward", {0, 1, 9, 10}, [](const BatchnormWholeBackwardArgs& args) {
      return footprint_of(args.rows, args.c, args.activation, args.diff_src, args.of_sum);
    }));

void submit_batchnorm_forward(BatchnormForwardArgs args, const Tensor& src, const Tensor& total,
                              const Tensor& mean, const Tensor& inv_std, const Tensor& rolling_mean,
                              const Tensor& rolling_variance, const Tensor& scale,
                              const Tensor& shift, const Tensor* addend, const Tensor& dst,
                              TaskTag tag) {
  args.adds = addend != nullptr;
  const std::array accesses{read(src),
                            write(total),
                            write(mean),
                            write(inv_std),
                            accumulate(rolling_mean),  // see submit_batchnorm_finish
                            accumulate(rolling_variance),
                            read(scale),
                            read(shift),
                            write(dst),
                            read(args.adds ? *addend : src)};
  batchnorm_forward.submit(args, std::span(accesses).first(args.adds ? 10 : 9), tag);
}

void submit_batchnorm_backward(BatchnormWholeBackwardArgs args, const Tensor& src,
                               const Tensor& diff_dst, const Tensor& mean, const Tensor& inv_std,
                               const Tensor& scale, const Tensor& shift, const Tensor& total,
                               const Tensor& diff_scale, const Tensor& diff_shift,
                               const Tensor* diff_src, const BatchnormSum* sum, TaskTag tag) {
  args.of_sum = sum != nullptr;
  args.diff_src = diff_src == nullptr     ? DiffSrc::none
                  : diff_src == &diff_dst ? DiffSrc::in_place
                                          : DiffSrc::apart;
  const bool in_place = args.diff_src == DiffSrc::in_place;
  const bool apart = args.diff_src == DiffSrc::apart;
  const std::array accesses{read(src),
                            in_place ? read_write(diff_dst) : read(diff_dst),
                            read(mean),
                            read(inv_std),
                            read(scale),
                            read(shift),
                            write(total),
                            accumulate(diff_scale),
                            accumulate(diff_shift),
                            args.of_sum ? read(sum->dst) : write(apart ? *diff_src : diff_dst),
                            write(args.of_sum ? sum->diff_addend : diff_dst)};
  batchnorm_backward.submit(args,
                            std::span(accesses).first(args.of_sum ? 11
                                                      : apart     ? 10
                                                                  : 9),
                            tag);
}

}  // namespace omni
