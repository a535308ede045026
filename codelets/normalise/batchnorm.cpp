#include "codelets/normalise/batchnorm.hpp"

#include <cstddef>
#include <utility>

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

// The following code has loops over a slice, and sums by channel.

// Steps cut a slice of rows * c values, whose channels are contiguous, into steps of `width`
// values. The width is a multiple of c that is long enough to vectorise even for 1 or 3 channels.
// Numbers by channel are repeated up to that width.
struct Steps {
  std::int64_t count;
  int width;

  Steps(std::int64_t rows, int c) : count(rows * c), width((255 + c) / c * c) {}

  // Calls visit(first value, number of values) for every step. The last step may be shorter.
  void for_each(auto visit) const {
    for (std::int64_t at = 0; at < count; at += width)
      visit(at, static_cast<int>(std::min<std::int64_t>(width, count - at)));
  }
};

void repeat(float* wide, int c, int width) {
  for (int i = c; i < width; ++i) wide[i] = wide[i - c];
}
void repeat(const float* by_channel, float* wide, int c, int width) {
  std::copy_n(by_channel, c, wide);
  repeat(wide, c, width);
}

// ChannelSums are two sums by channel, in double. Double takes no more time than reading the data,
// and plain sums of squares are then exact enough for the variance.
class ChannelSums {
 public:
  ChannelSums(const Steps& steps, float* memory)
      : width_(steps.width), first_(reinterpret_cast<double*>(memory)), second_(first_ + width_) {
    std::fill_n(first_, 2 * width_, 0.0);
  }
  static std::size_t floats(const Steps& steps) { return 4 * steps.width; }

  double* first() const { return first_; }
  double* second() const { return second_; }
  void fold(int c) {
    for (int i = c; i < width_; ++i) {
      first_[i % c] += first_[i];
      second_[i % c] += second_[i];
    }
  }

 private:
  int width_;
  double *first_, *second_;
};

// The following functions are the kernels.

constexpr auto partial_vector = []<class T>(T, const BatchnormSliceArgs& args,
                                            const Buffers& buffers, DeviceContext& context) {
  const Steps steps(args.rows, args.c);
  ChannelSums sums(steps, context.scratch(ChannelSums::floats(steps)));
  const T* src = buffers.get<T>(0);
  double *sum = sums.first(), *squares = sums.second();
  steps.for_each([=](std::int64_t at, int values) {
    const T* x = src + at;
    for (int i = 0; i < values; ++i) {
      const auto value = static_cast<double>(static_cast<float>(x[i]));
      sum[i] += value;
      squares[i] += value * value;
    }
  });
  sums.fold(args.c);
  float* partial = buffers.get(1);
  const auto rows = static_cast<double>(args.rows);
  for (int k = 0; k < args.c; ++k) {
    partial[k] = static_cast<float>(sum[k] / rows);
    partial[args.c + k] = static_cast<float>(std::max(0.0, squares[k] - sum[k] * sum[k] / rows));
  }
};

constexpr auto apply_vector = []<class T>(T, const BatchnormApplyArgs& args, const Buffers& buffers,
                                          DeviceContext& context) {
  const Steps steps(args.rows, args.c);
  const T *src = buffers.get<T>(0), *addend = args.adds ? buffers.get<T>(6) : nullptr;
  const float *statistics = buffers.get(2), *scale = buffers.get(3);
  T* dst = buffers.get<T>(5);
  float* mean = context.scratch(4 * steps.width);
  float *factor = mean + steps.width, *shift = factor + steps.width, *step = shift + steps.width;
  for (int k = 0; k < args.c; ++k)
    factor[k] = scale[k] * (args.from_variance
                                ? 1 / std::sqrt(statistics[k] + static_cast<float>(args.epsilon))
                                : statistics[k]);
  repeat(factor, args.c, steps.width);
  repeat(buffers.get(1), mean, args.c, steps.width);
  repeat(buffers.get(4), shift, args.c, steps.width);
  steps.for_each([=, &args](std::int64_t at, int values) {
    float* out = step;
    if constexpr (std::is_same_v<T, float>) out = dst + at;
    for (int i = 0; i < values; ++i) out[i] = factor[i] * (src[at + i] - mean[i]) + shift[i];
    if (addend != nullptr)
      for (int i = 0; i < values; ++i) out[i] += addend[at + i];
    activate(args.activation, out, values);
    if constexpr (!std::is_same_v<T, float>) std::copy_n(out, values, dst + at);
  });
};

// BeforeActivation has the numbers by channel with which backward kernels compute the activation's
// input again, exactly as apply_vector did.
struct BeforeActivation {
  float *mean, *factor, *shift;

  static std::size_t floats(const Steps& steps) { return 3 * steps.width; }
  // `buffers` are src, diff_dst, mean, inv_std, scale and shift.
  BeforeActivation(const Steps& steps, int c, const Buffers& buffers, float* memory)
      : mean(memory), factor(mean + steps.width), shift(factor + steps.width) {
    const float *inv_std = buffers.get(3), *scale = buffers.get(4);
    for (int k = 0; k < c; ++k) factor[k] = scale[k] * inv_std[k];
    repeat(factor, c, steps.width);
    repeat(buffers.get(2), mean, c, steps.width);
    repeat(buffers.get(5), shift, c, steps.width);
  }
  float gradient(auto f, bool from_input, int i, float x) const {
    const float before = factor[i] * (x - mean[i]) + shift[i];
    return f.gradient(from_input ? before : f(before));
  }
};

// Stores the sums of the two reductions. The second sum is changed to that of products with the
// normalised src.
void store_sums(ChannelSums& sums, int c, const float* inv_std, float* out) {
  sums.fold(c);
  for (int k = 0; k < c; ++k) {
    out[k] = static_cast<float>(sums.first()[k]);
    out[c + k] = static_cast<float>(sums.second()[k] * static_cast<double>(inv_std[k]));
  }
}

constexpr auto backward_reduce_vector = []<class T>(T, const BatchnormReduceArgs& args,
                                                    const Buffers& buffers,
                                                    DeviceContext& context) {
  const Steps steps(args.rows, args.c);
  float* memory = context.scratch(ChannelSums::floats(steps) + BeforeActivation::floats(steps));
  ChannelSums sums(steps, memory);
  const BeforeActivation before(steps, args.c, buffers, memory + ChannelSums::floats(steps));
  const T *src = buffers.get<T>(0), *diff_dst = buffers.get<T>(1);
  double *sum = sums.first(), *product = sums.second();
  with_activation(args.activation, [=, from_input = gradient_needs_input(args.activation)](auto f) {
    steps.for_each([=](std::int64_t at, int values) {
      const T *x = src + at, *d = diff_dst + at;
      for (int i = 0; i < values; ++i) {
        const float diff = d[i] * before.gradient(f, from_input, i, x[i]);
        sum[i] += static_cast<double>(diff);
        product[i] += static_cast<double>(diff * (x[i] - before.mean[i]));
      }
    });
  });
  store_sums(sums, args.c, buffers.get(3), buffers.get(6));
};

constexpr auto residual_reduce_vector = []<class T>(T, const BatchnormReduceArgs& args,
                                                    const Buffers& buffers,
                                                    DeviceContext& context) {
  const Steps steps(args.rows, args.c);
  float* memory = context.scratch(ChannelSums::floats(steps) + steps.width);
  ChannelSums sums(steps, memory);
  float* mean = memory + ChannelSums::floats(steps);
  repeat(buffers.get(3), mean, args.c, steps.width);
  const T *src = buffers.get<T>(0), *dst = buffers.get<T>(1), *diff_dst = buffers.get<T>(2);
  T* diff_addend = buffers.get<T>(6);
  double *sum = sums.first(), *product = sums.second();
  with_activation(args.activation, [=](auto f) {
    steps.for_each([=](std::int64_t at, int values) {
      const T* __restrict x = src + at;
      const T* __restrict y = dst + at;
      const T* __restrict d = diff_dst + at;
      T* __restrict out = diff_addend + at;
      for (int i = 0; i < values; ++i) {
        const float diff = d[i] * f.gradient(static_cast<float>(y[i]));
        out[i] = diff;
        sum[i] += static_cast<double>(diff);
        product[i] += static_cast<double>(diff * (x[i] - mean[i]));
      }
    });
  });
  store_sums(sums, args.c, buffers.get(4), buffers.get(5));
};

template <class T = float>
T* diff_src_of(const BatchnormBackwardArgs& args, const Buffers& buffers) {
  return buffers.get<T>(args.in_place ? 1 : 7);
}

// Computes diff_src = factor * diff + slope * (src - mean) + offset by channel, where diff is the
// gradient before the activation.
constexpr auto backward_data_vector = []<class T>(T, const BatchnormBackwardArgs& args,
                                                  const Buffers& buffers, DeviceContext& context) {
  const Steps steps(args.rows, args.c);
  const T *src = buffers.get<T>(0), *diff_dst = buffers.get<T>(1);
  const float *inv_std = buffers.get(3), *total = buffers.get(6);
  T* diff_src = diff_src_of<T>(args, buffers);
  float* slope = context.scratch(2 * steps.width + BeforeActivation::floats(steps));
  float* offset = slope + steps.width;
  const BeforeActivation before(steps, args.c, buffers, offset + steps.width);
  const auto batch = static_cast<float>(args.batch_rows);
  for (int k = 0; k < args.c; ++k) {
    slope[k] = -before.factor[k] * inv_std[k] * (total[args.c + k] / batch);
    offset[k] = -before.factor[k] * (total[k] / batch);
  }
  for (float* wide : {slope, offset}) repeat(wide, args.c, steps.width);
  with_activation(args.activation, [=, from_input = gradient_needs_input(args.activation)](auto f) {
    steps.for_each([=](std::int64_t at, int values) {
      const T *x = src + at, *d = diff_dst + at;
      T* out = diff_src + at;
#pragma GCC ivdep  // `out` may be `d`
      for (int i = 0; i < values; ++i) {
        const float diff = d[i] * before.gradient(f, from_input, i, x[i]);
        out[i] = before.factor[i] * diff + slope[i] * (x[i] - before.mean[i]) + offset[i];
      }
    });
  });
};

void backward_data_reference(const BatchnormBackwardArgs& args, const Buffers& buffers,
                             DeviceContext&) {
  reference::batchnorm_backward_data<float>(args, buffers.get(0), buffers.get(1), buffers.get(2),
                                            buffers.get(3), buffers.get(4), buffers.get(5),
                                            buffers.get(6), diff_src_of(args, buffers));
}

template <int flops, int values, class Args>
Cost channel_cost(const Args& args) {
  return {.flops = double{flops} * args.c, .bytes = 4.0 * values * args.c};
}

std::uint64_t slice_footprint(const auto& args) { return footprint_of(args.rows, args.c); }
std::uint64_t channel_footprint(const auto& args) { return footprint_of(args.c); }
Cost apply_cost(const BatchnormApplyArgs& args) {
  return args.adds ? cost_per_value<4, 12>(args) : cost_per_value<3, 8>(args);
}
std::uint64_t apply_footprint(const BatchnormApplyArgs& args) {
  return footprint_of(args.rows, args.c, args.activation, args.adds);
}
std::uint64_t reduce_footprint(const BatchnormReduceArgs& args) {
  return footprint_of(args.rows, args.c, args.activation);
}
std::uint64_t backward_data_footprint(const BatchnormBackwardArgs& args) {
  return footprint_of(args.rows, args.c, args.activation, args.in_place);
}

constexpr std::uint32_t kBatchnormColor = 0x2ca02c;

// Makes a codelet's definition. Operations on a few numbers per channel have only a reference on
// cores, because plain loops suffice for them.
template <class Args>
CodeletDefinition<Args> definition(const char* name,
                                   std::vector<Implementation<Args>> implementations,
                                   Cost (*cost)(const Args&),
                                   std::uint64_t (*footprint)(const Args&)) {
  return {name, kBatchnormColor, std::move(implementations), cost, footprint};
}

}  // namespace

Codelet<BatchnormSliceArgs> batchnorm_partial(definition<BatchnormSliceArgs>(
    "batchnorm_partial", OMNI_IMPLEMENTATIONS(batchnorm_partial, by_values<partial_vector>, 0),
    cost_per_value<3, 4>, slice_footprint));
Codelet<BatchnormMergeArgs> batchnorm_merge(
    definition<BatchnormMergeArgs>("batchnorm_merge", {OMNI_PLAIN_IMPLEMENTATIONS(batchnorm_merge)},
                                   channel_cost<10, 6>, channel_footprint));
Codelet<BatchnormFinishArgs> batchnorm_finish(definition<BatchnormFinishArgs>(
    "batchnorm_finish", {OMNI_PLAIN_IMPLEMENTATIONS(batchnorm_finish)}, channel_cost<10, 8>,
    channel_footprint));
Codelet<BatchnormApplyArgs> batchnorm_apply(definition<BatchnormApplyArgs>(
    "batchnorm_apply", OMNI_IMPLEMENTATIONS(batchnorm_apply, by_values<apply_vector>, 0, 5, 6),
    apply_cost, apply_footprint));
Codelet<BatchnormReduceArgs> batchnorm_backward_reduce(definition<BatchnormReduceArgs>(
    "batchnorm_backward_reduce",
    OMNI_IMPLEMENTATIONS(batchnorm_backward_reduce, by_values<backward_reduce_vector>, 0, 1),
    cost_per_value<7, 8>, reduce_footprint));
Codelet<BatchnormReduceArgs> batchnorm_residual_reduce(definition<BatchnormReduceArgs>(
    "batchnorm_residual_reduce",
    OMNI_IMPLEMENTATIONS(batchnorm_residual_reduce, by_values<residual_reduce_vector>, 0, 1, 2, 6),
    cost_per_value<6, 16>, reduce_footprint));
Codelet<BatchnormMergeArgs> batchnorm_merge_sums(definition<BatchnormMergeArgs>(
    "batchnorm_merge_sums", {OMNI_PLAIN_IMPLEMENTATIONS(batchnorm_merge_sums)}, channel_cost<2, 6>,
    channel_footprint));
Codelet<BatchnormParameterArgs> batchnorm_parameter_gradient(definition<BatchnormParameterArgs>(
    "batchnorm_parameter_gradient", {OMNI_PLAIN_IMPLEMENTATIONS(batchnorm_parameter_gradient)},
    channel_cost<2, 6>, channel_footprint));
Codelet<BatchnormBackwardArgs> batchnorm_backward_data(definition<BatchnormBackwardArgs>(
    "batchnorm_backward_data",
    {{.name = "vector", .kernel = by_values<backward_data_vector>, .in_bf16 = {0, 1, 7}},
     {"reference", backward_data_reference, nullptr, Role::reference},
     OMNI_GPU_IMPLEMENTATION(gpu::batchnorm_backward_data, 0, 1, 7)},
    cost_per_value<9, 12>, backward_data_footprint));

void submit_batchnorm_merge(Codelet<BatchnormMergeArgs>& merge, const BatchnormMergeArgs& args,
                            const Tensor& partial, const Tensor& total, TaskTag tag) {
  merge.submit(args, {read(partial), args.rows_before == 0 ? write(total) : read_write(total)},
               tag);
}

void submit_batchnorm_finish(BatchnormFinishArgs args, const Tensor& total, const Tensor& mean,
                             const Tensor& inv_std, const Tensor& rolling_mean,
                             const Tensor& rolling_variance, const Tensor* rolling_batches,
                             TaskTag tag) {
  args.counts = rolling_batches != nullptr;
  batchnorm_finish.submit(args,
                          // Compute groups share the rolling statistics and must not wait for each
                          // other. So their tasks may update these in any order.
                          {read(total), write(mean), write(inv_std), accumulate(rolling_mean),
                           accumulate(rolling_variance), if_any(accumulate, rolling_batches)},
                          tag);
}

void submit_batchnorm_apply(BatchnormApplyArgs args, const Tensor& src, const Tensor& mean,
                            const Tensor& statistics, const Tensor& scale, const Tensor& shift,
                            const Tensor* addend, const Tensor& dst, TaskTag tag) {
  args.adds = addend != nullptr;
  batchnorm_apply.submit(args,
                         {read(src), read(mean), read(statistics), read(scale), read(shift),
                          write(dst), if_any(read, addend)},
                         tag);
}

void submit_batchnorm_backward_data(BatchnormBackwardArgs args, const Tensor& src,
                                    const Tensor& diff_dst, const Tensor& mean,
                                    const Tensor& inv_std, const Tensor& scale, const Tensor& shift,
                                    const Tensor& total, const Tensor& diff_src, TaskTag tag) {
  args.in_place = &diff_dst == &diff_src;
  batchnorm_backward_data.submit(
      args,
      {read(src), args.in_place ? read_write(diff_dst) : read(diff_dst), read(mean), read(inv_std),
       read(scale), read(shift), read(total), if_any(write, args.in_place ? nullptr : &diff_src)},
      tag);
}

}  // namespace omni
