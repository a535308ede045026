#include "codelets/normalise/batchnorm_residual.hpp"

#include "codelets/definition.hpp"
#include "codelets/normalise/batchnorm_steps.hpp"

namespace omni {
namespace {

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
  sums.fold(args.c);
  const float* inv_std = buffers.get(4);
  float* out = buffers.get(5);
  for (int k = 0; k < args.c; ++k) {
    out[k] = static_cast<float>(sum[k]);
    out[args.c + k] = static_cast<float>(product[k] * static_cast<double>(inv_std[k]));
  }
};

}  // namespace

Codelet<BatchnormReduceArgs> batchnorm_residual_reduce({
    .name = "batchnorm_residual_reduce",
    .color = 0x2ca02c,  // of batch normalisation
    .implementations = OMNI_IMPLEMENTATIONS(batchnorm_residual_reduce,
                                            by_values<residual_reduce_vector>, 0, 1, 2, 6),
    .cost = cost_per_value<6, 16>,
    .footprint = footprint_by<&BatchnormReduceArgs::rows, &BatchnormReduceArgs::c,
                              &BatchnormReduceArgs::activation>,
});

}  // namespace omni
