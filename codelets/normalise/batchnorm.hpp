// Batch normalisation is exact over a mini-batch that is cut into slices. Every slice is reduced by
// itself. The small results are merged in the order of slices, so sums do not depend on timing.
// Then every slice is normalised by itself.
//
// forward:  partial (per slice), merge (per slice, a chain), finish (once), apply (per slice)
// backward: backward_reduce (per slice), merge_sums (per slice, a chain),
//           parameter_gradient (once), backward_data (per slice)
//
// The activation is part of the operation. Backward computes the normalised values again, which
// takes less time than reading the output.
//
// The batch is normalised by its biased variance, and backward is the exact gradient of that. The
// rolling variance averages the unbiased one, as Darknet's files hold it. 1/std always means
// 1/sqrt(variance + epsilon).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "codelets/elementwise/activation.hpp"
#include "codelets/elementwise/activation_functors.hpp"
#include "runtime/tasks/access.hpp"
#include "runtime/tasks/kernel.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

inline constexpr double kBatchnormEpsilon = 1e-5;

struct BatchnormSliceArgs {
  std::int64_t rows = 0;  // images * h * w of the slice
  int c = 0;
  float momentum = 0;  // as in BatchnormFinishArgs, for kernels of a GPU that also merge and finish
};

// BatchnormMergeArgs are for adding the result of a slice to the total of the earlier slices. The
// first slice starts the total.
struct BatchnormMergeArgs {
  int c = 0;
  std::int64_t rows_before = 0, rows = 0;
};

struct BatchnormFinishArgs {
  int c = 0;
  std::int64_t rows = 0;   // of the whole mini-batch
  float momentum = 0.99f;  // rolling = momentum * rolling + (1 - momentum) * batch
  double epsilon = kBatchnormEpsilon;
  // If `counts` is true, the rolling numbers are weighted means over all mini-batches so far. Their
  // weights are 1, momentum, momentum^2 ... from the newest on. rolling_batches holds the sum of
  // the weights.
  bool counts = false;  // the submit function sets it
  bool frozen = false;  // mean and 1/std are those of the rolling numbers, which stay as they are
};

struct BatchnormApplyArgs {
  std::int64_t rows = 0;  // of the slice
  int c = 0;
  bool from_variance = false;  // true, in inference: the statistics are variances, not 1/std
  Activation activation = Activation::linear;
  bool adds = false;  // the submit function sets it: an addend is added before the activation
  double epsilon = kBatchnormEpsilon;  // only used if from_variance
};

struct BatchnormReduceArgs {
  std::int64_t rows = 0;  // of the slice
  int c = 0;
  Activation activation = Activation::linear;
};

struct BatchnormBackwardArgs {
  static constexpr std::int64_t kFrozen = std::numeric_limits<std::int64_t>::max();
  std::int64_t rows = 0;  // of the slice
  int c = 0;
  std::int64_t batch_rows = 0;  // of the whole mini-batch; kFrozen: mean and 1/std are constants
  Activation activation = Activation::linear;
  bool in_place = false;  // the submit function sets it
};

struct BatchnormParameterArgs {
  int c = 0;
};

// Moments are the number of rows, their mean, and the sum of squared deviations from the mean.
// Moments{} are those of no rows.
template <class T>
struct Moments {
  T rows, mean, squares;

  // Adds the moments of other rows, by Chan, Golub and LeVeque's pairwise update.
  OMNI_HD void add(const Moments& other) {
    if (other.rows == 0) return;
    const T gap = other.mean - mean, share = other.rows / (rows + other.rows);
    mean += gap * share;
    squares += other.squares + gap * gap * rows * share;
    rows += other.rows;
  }
};

// The computations in this namespace are done once per channel, on cores and GPUs.
namespace batchnorm_channel {

template <class T>
struct Merge {
  BatchnormMergeArgs args;
  const T* partial;
  T* total;
  OMNI_HD void operator()(std::int64_t k) const {
    const auto moments = [c = args.c, k](std::int64_t rows, const T* from) {
      return Moments<double>{static_cast<double>(rows), static_cast<double>(from[k]),
                             static_cast<double>(from[c + k])};
    };
    Moments<double> merged =
        args.rows_before == 0 ? Moments<double>{} : moments(args.rows_before, total);
    merged.add(moments(args.rows, partial));
    total[k] = static_cast<T>(merged.mean);
    total[args.c + k] = static_cast<T>(merged.squares);
  }
};

template <class T>
struct Finish {
  BatchnormFinishArgs args;
  const T* total;
  // `rolling_batches` is null unless args.counts.
  T *mean, *inv_std, *rolling_mean, *rolling_variance, *rolling_batches;
  OMNI_HD void operator()(std::int64_t k) const {
    if (args.frozen) {
      mean[k] = rolling_mean[k];
      inv_std[k] =
          static_cast<T>(1 / std::sqrt(static_cast<double>(rolling_variance[k]) + args.epsilon));
      return;
    }
    const auto rows = static_cast<double>(args.rows);
    const double squares = static_cast<double>(total[args.c + k]);
    mean[k] = total[k];
    inv_std[k] = static_cast<T>(1 / std::sqrt(squares / rows + args.epsilon));
    auto keep = static_cast<double>(args.momentum);
    if (args.counts) {
      rolling_batches[k] = static_cast<T>(args.momentum) * rolling_batches[k] + 1;
      keep = 1 - 1 / static_cast<double>(rolling_batches[k]);
    }
    roll(rolling_mean[k], static_cast<double>(total[k]), keep);
    roll(rolling_variance[k], args.rows > 1 ? squares / (rows - 1) : 0,  // one value has none
         keep);
  }
  OMNI_HD static void roll(T& rolling, double batch, double keep) {
    rolling = static_cast<T>(keep * static_cast<double>(rolling) + (1 - keep) * batch);
  }
};

// MergeSums adds the 2 * c sums of a slice to the total.
template <class T>
struct MergeSums {
  BatchnormMergeArgs args;
  const T* partial;
  T* total;
  OMNI_HD void operator()(std::int64_t k) const {
    total[k] = args.rows_before == 0 ? partial[k] : total[k] + partial[k];
  }
};

template <class T>
struct ParameterGradient {
  BatchnormParameterArgs args;
  const T* total;
  T *diff_scale, *diff_shift;
  OMNI_HD void operator()(std::int64_t k) const {
    diff_shift[k] += total[k];
    diff_scale[k] += total[args.c + k];
  }
};

}  // namespace batchnorm_channel

namespace reference {

// Computes the moments of a slice. `partial` holds mean[c], then the sums of squared deviations
// from the mean [c].
template <class T>
void batchnorm_partial(const BatchnormSliceArgs& args, const T* src, T* partial) {
  const auto rows = static_cast<double>(args.rows);
  for (int k = 0; k < args.c; ++k) {
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < args.rows; ++i) sum += static_cast<double>(src[i * args.c + k]);
    for (std::int64_t i = 0; i < args.rows; ++i) {
      const double deviation = static_cast<double>(src[i * args.c + k]) - sum / rows;
      squares += deviation * deviation;
    }
    partial[k] = static_cast<T>(sum / rows);
    partial[args.c + k] = static_cast<T>(squares);
  }
}

template <class T>
void batchnorm_merge(const BatchnormMergeArgs& args, const T* partial, T* total) {
  for (int k = 0; k < args.c; ++k) batchnorm_channel::Merge<T>{args, partial, total}(k);
}

template <class T>
void batchnorm_finish(const BatchnormFinishArgs& args, const T* total, T* mean, T* inv_std,
                      T* rolling_mean, T* rolling_variance, T* rolling_batches) {
  const batchnorm_channel::Finish<T> finish{
      args, total, mean, inv_std, rolling_mean, rolling_variance, rolling_batches};
  for (int k = 0; k < args.c; ++k) finish(k);
}

// Computes dst = activation(scale * normalised src + shift + addend). `addend` is read only if
// args.adds.
template <class T>
void batchnorm_apply(const BatchnormApplyArgs& args, const T* src, const T* mean,
                     const T* statistics, const T* scale, const T* shift, T* dst, const T* addend) {
  for (std::int64_t i = 0; i < args.rows; ++i)
    for (int k = 0; k < args.c; ++k) {
      const T inv_std = args.from_variance
                            ? 1 / std::sqrt(statistics[k] + static_cast<T>(args.epsilon))
                            : statistics[k];
      const std::int64_t at = i * args.c + k;
      dst[at] = scale[k] * inv_std * (src[at] - mean[k]) + shift[k] + (args.adds ? addend[at] : 0);
    }
  activate(args.activation, dst, args.rows * args.c);
}

// Returns the gradient before the activation, whose input is scale * normalised + shift.
template <class T>
T batchnorm_diff(Activation activation, T diff_dst, T normalised, T scale, T shift) {
  const T before = scale * normalised + shift;
  return diff_dst * with_activation(activation, [=](auto f) {
           return f.gradient(gradient_needs_input(activation) ? before : f(before));
         });
}

// Computes two sums per channel: of the gradient before the activation [c], then of its product
// with normalised src [c].
template <class T>
void batchnorm_backward_reduce(const BatchnormReduceArgs& args, const T* src, const T* diff_dst,
                               const T* mean, const T* inv_std, const T* scale, const T* shift,
                               T* sums) {
  for (int k = 0; k < args.c; ++k) {
    double sum = 0, product = 0;
    for (std::int64_t i = 0; i < args.rows; ++i) {
      const T normalised = (src[i * args.c + k] - mean[k]) * inv_std[k];
      const auto diff = static_cast<double>(batchnorm_diff(
          args.activation, diff_dst[i * args.c + k], normalised, scale[k], shift[k]));
      sum += diff;
      product += diff * static_cast<double>(normalised);
    }
    sums[k] = static_cast<T>(sum);
    sums[args.c + k] = static_cast<T>(product);
  }
}

template <class T>
void batchnorm_merge_sums(const BatchnormMergeArgs& args, const T* partial, T* total) {
  for (int k = 0; k < 2 * args.c; ++k) batchnorm_channel::MergeSums<T>{args, partial, total}(k);
}

template <class T>
void batchnorm_parameter_gradient(const BatchnormParameterArgs& args, const T* total, T* diff_scale,
                                  T* diff_shift) {
  for (int k = 0; k < args.c; ++k)
    batchnorm_channel::ParameterGradient<T>{args, total, diff_scale, diff_shift}(k);
}

// Computes the gradient of src. `diff_src` may be `diff_dst`.
template <class T>
void batchnorm_backward_data(const BatchnormBackwardArgs& args, const T* src, const T* diff_dst,
                             const T* mean, const T* inv_std, const T* scale, const T* shift,
                             const T* total, T* diff_src) {
  const T batch = static_cast<T>(args.batch_rows);
  for (std::int64_t i = 0; i < args.rows; ++i)
    for (int k = 0; k < args.c; ++k) {
      const std::int64_t at = i * args.c + k;
      const T normalised = (src[at] - mean[k]) * inv_std[k];
      const T diff = batchnorm_diff(args.activation, diff_dst[at], normalised, scale[k], shift[k]);
      diff_src[at] = scale[k] * inv_std[k] *
                     (diff - total[k] / batch - normalised * total[args.c + k] / batch);
    }
}

// This is backward through the sum of a residual block, dst = activation(normalised src + addend).
// A single pass over src, dst and diff_dst computes the gradient of the sum, which is also that of
// the addend. It also computes the sums of batchnorm_backward_reduce. (In bf16 they are computed
// before the gradient is rounded.) args.activation is the sum's activation; its gradient must not
// need its input.
template <class T>
void batchnorm_residual_reduce(const BatchnormReduceArgs& args, const T* src, const T* dst,
                               const T* diff_dst, const T* mean, const T* inv_std, T* sums,
                               T* diff_addend) {
  std::copy_n(diff_dst, args.rows * args.c, diff_addend);
  activation_backward({.count = args.rows * args.c, .activation = args.activation}, dst,
                      diff_addend);
  // Without an activation, scale and shift do not matter, so `mean` is passed in place of both.
  batchnorm_backward_reduce({.rows = args.rows, .c = args.c}, src, diff_addend, mean, inv_std, mean,
                            mean, sums);
}

}  // namespace reference

// `partial`, `sums` and `total` are f32[2*c]; all other tensors by channel are f32[c].
OMNI_CODELET(BatchnormSliceArgs, batchnorm_partial);  // {src R, partial W}
OMNI_CODELET(BatchnormMergeArgs, batchnorm_merge);
OMNI_CODELET(BatchnormFinishArgs, batchnorm_finish);
OMNI_CODELET(BatchnormApplyArgs, batchnorm_apply);
// The buffers are {src R, diff_dst R, mean R, inv_std R, scale R, shift R, sums W}.
OMNI_CODELET(BatchnormReduceArgs, batchnorm_backward_reduce);
// The buffers are {src R, dst R, diff_dst R, mean R, inv_std R, sums W, diff_addend W}.
OMNI_CODELET(BatchnormReduceArgs, batchnorm_residual_reduce);
OMNI_CODELET(BatchnormMergeArgs, batchnorm_merge_sums);
// The buffers are {total R, diff_scale +=, diff_shift +=}.
OMNI_CODELET(BatchnormParameterArgs, batchnorm_parameter_gradient);
OMNI_CODELET(BatchnormBackwardArgs, batchnorm_backward_data);

// Submits a merge. The codelet `merge` is batchnorm_merge or batchnorm_merge_sums.
void submit_batchnorm_merge(Codelet<BatchnormMergeArgs>& merge, const BatchnormMergeArgs& args,
                            const Tensor& partial, const Tensor& total, TaskTag tag = {});
// Submits the finish. `rolling_batches` is null unless the rolling numbers are means over all
// mini-batches.
void submit_batchnorm_finish(BatchnormFinishArgs args, const Tensor& total, const Tensor& mean,
                             const Tensor& inv_std, const Tensor& rolling_mean,
                             const Tensor& rolling_variance,
                             const Tensor* rolling_batches = nullptr, TaskTag tag = {});
// Submits the normalisation of a slice. `statistics` are inv_std, or variances if
// args.from_variance. `addend` is null if there is none.
void submit_batchnorm_apply(BatchnormApplyArgs args, const Tensor& src, const Tensor& mean,
                            const Tensor& statistics, const Tensor& scale, const Tensor& shift,
                            const Tensor* addend, const Tensor& dst, TaskTag tag = {});
// Submits the gradient of src. `diff_src` may be `diff_dst`.
void submit_batchnorm_backward_data(BatchnormBackwardArgs args, const Tensor& src,
                                    const Tensor& diff_dst, const Tensor& mean,
                                    const Tensor& inv_std, const Tensor& scale, const Tensor& shift,
                                    const Tensor& total, const Tensor& diff_src, TaskTag tag = {});

}  // namespace omni
