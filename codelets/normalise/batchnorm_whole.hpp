// These codelets normalise a mini-batch that is one slice. Forward and backward are one task each,
// which runs the kernels of batchnorm.hpp one after the other. With a task per step, StarPU would
// take longer than half of these kernels compute.
#pragma once

#include <cstdint>

#include "codelets/normalise/batchnorm.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

struct BatchnormForwardArgs {
  std::int64_t rows = 0;  // images * h * w of the mini-batch
  int c = 0;
  float momentum = 0.99f;  // as in BatchnormFinishArgs
  Activation activation = Activation::linear;
  bool adds = false;  // the submit function sets it: an addend is added before the activation
};

struct BatchnormWholeBackwardArgs {
  enum class DiffSrc { none, in_place, apart };
  std::int64_t rows = 0;  // images * h * w of the mini-batch
  int c = 0;
  Activation activation = Activation::linear;  // if of_sum, the sum's
  DiffSrc diff_src = DiffSrc::none;            // the submit function sets it
  bool of_sum = false;  // the submit function sets it: as batchnorm_residual_reduce, and in place
};

// The buffers are {src R, total W, mean W, inv_std W, rolling_mean RW, rolling_variance RW, scale
// R, shift R, dst W, addend R if it adds}.
extern Codelet<BatchnormForwardArgs> batchnorm_forward;
// The buffers are {src R, diff_dst R (RW in place), mean R, inv_std R, scale R, shift R, total W,
// diff_scale RW, diff_shift RW, diff_src W if apart; of_sum: dst R, diff_addend W}.
extern Codelet<BatchnormWholeBackwardArgs> batchnorm_backward;

// Submits forward. The tensors are those of the functions in batchnorm.hpp. `total` is working
// memory.
void submit_batchnorm_forward(BatchnormForwardArgs args, const Tensor& src, const Tensor& total,
                              const Tensor& mean, const Tensor& inv_std, const Tensor& rolling_mean,
                              const Tensor& rolling_variance, const Tensor& scale,
                              const Tensor& shift, const Tensor* addend, const Tensor& dst,
                              TaskTag tag = {});
// A BatchnormSum has the output of a residual block, and the tensor for the gradient of the block's
// addend.
struct BatchnormSum {
  const Tensor &dst, &diff_addend;
};

// Submits backward, which adds to diff_scale and diff_shift. `diff_src` may be `diff_dst`, or null
// if it is not needed. With `sum`, `diff_src` must be `diff_dst`.
void submit_batchnorm_backward(BatchnormWholeBackwardArgs args, const Tensor& src,
                               const Tensor& diff_dst, const Tensor& mean, const Tensor& inv_std,
                               const Tensor& scale, const Tensor& shift, const Tensor& total,
                               const Tensor& diff_scale, const Tensor& diff_shift,
                               const Tensor* diff_src, const BatchnormSum* sum = nullptr,
                               TaskTag tag = {});

}  // namespace omni
