// Batch normalisation where the mini-batch is one slice: forward and backward are one task each, in
// which the kernels of batchnorm.hpp come one after the other. There a task per step would cost
// StarPU more time than half of them compute.
#pragma once

#include "codelets/normalise/batchnorm.hpp"

namespace omni {

struct BatchnormForwardArgs {
  std::int64_t rows = 0;  // of the mini-batch
  int c = 0;
  float momentum = 0.99f;  // see BatchnormFinishArgs
  Activation activation = Activation::linear;
  bool adds = false;  // set by the submit function
};

struct BatchnormWholeBackwardArgs {
  enum class DiffSrc { none, in_place, apart };
  std::int64_t rows = 0;  // of the mini-batch
  int c = 0;
  Activation activation = Activation::linear;  // of_sum: that of the sum
  DiffSrc diff_src = DiffSrc::none;            // set by the submit function
  bool of_sum = false;                         // see batchnorm_residual.hpp; likewise, and in place
};

// {src R, total W, mean W, inv_std W, rolling_mean RW, rolling_variance RW, scale R, shift R,
// dst W, addend R if it adds}
extern Codelet<BatchnormForwardArgs> batchnorm_forward;
// {src R, diff_dst R (RW in place), mean R, inv_std R, scale R, shift R, total W, diff_scale RW,
// diff_shift RW, diff_src W if apart; of_sum: dst R, diff_addend W}
extern Codelet<BatchnormWholeBackwardArgs> batchnorm_backward;

// As in batchnorm.hpp; what is left in `total` is of no use to anybody else.
void submit_batchnorm_forward(BatchnormForwardArgs args, const Tensor& src, const Tensor& total,
                              const Tensor& mean, const Tensor& inv_std, const Tensor& rolling_mean,
                              const Tensor& rolling_variance, const Tensor& scale,
                              const Tensor& shift, const Tensor* addend, const Tensor& dst,
                              TaskTag tag = {});
// What is special about the output of a residual block.
struct BatchnormSum {
  const Tensor &dst, &diff_addend;
};

// Adds to diff_scale and diff_shift. diff_src may be diff_dst, or null: nobody wants it. sum: null
// for none; with one, diff_src must be diff_dst.
void submit_batchnorm_backward(BatchnormWholeBackwardArgs args, const Tensor& src,
                               const Tensor& diff_dst, const Tensor& mean, const Tensor& inv_std,
                               const Tensor& scale, const Tensor& shift, const Tensor& total,
                               const Tensor& diff_scale, const Tensor& diff_shift,
                               const Tensor* diff_src, const BatchnormSum* sum = nullptr,
                               TaskTag tag = {});

}  // namespace omni
