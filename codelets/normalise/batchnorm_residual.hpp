// Backward through the sum of a residual block, dst = activation(normalised src + addend), as the
// first pass of the normalisation: one pass over src, dst and diff_dst makes the gradient of the
// sum, which is that of the addend, too, and what batchnorm_backward_reduce would make of it (in
// bf16 before it is rounded). The activation's gradient must not need its input.
#pragma once

#include "codelets/elementwise/shortcut_add.hpp"
#include "codelets/normalise/batchnorm.hpp"

namespace omni {

namespace reference {

// args.activation: that of the sum.
template <class T>
void batchnorm_residual_reduce(const BatchnormReduceArgs& args, const T* src, const T* dst,
                               const T* diff_dst, const T* mean, const T* inv_std, T* sums,
                               T* diff_addend) {
  std::copy_n(diff_dst, args.rows * args.c, diff_addend);
  activation_backward({.count = args.rows * args.c, .activation = args.activation}, dst,
                      diff_addend);
  // Without an activation, scale and shift do not matter: any will do.
  batchnorm_backward_reduce({.rows = args.rows, .c = args.c}, src, diff_addend, mean, inv_std, mean,
                            mean, sums);
}

}  // namespace reference

// {src R, dst R, diff_dst R, mean R, inv_std R, sums W, diff_addend W}
OMNI_CODELET(BatchnormReduceArgs, batchnorm_residual_reduce);

}  // namespace omni
