#include "codelets/elementwise/channel_bias.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

void forward_vector(const ChannelBiasArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    add_bias_and_activate(args.rows, args.c, buffers.get(0), args.activation, buffers.get<T>(1));
  });
}

bool activates(const ChannelBiasArgs& args) { return args.activation != Activation::linear; }

void backward_vector(const ChannelBiasArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    T* __restrict diff = buffers.get<T>(0);
    float* const sums = buffers.get(1);
    if (!activates(args)) return add_column_sums(args.rows, args.c, diff, sums);
    const T* __restrict values = buffers.get<T>(2);
    with_activation(args.activation, [=](auto f) {
      add_sums_by_column(args.rows, args.c, sums, [=](std::int64_t i) {
        const float before = diff[i] * f.gradient(static_cast<float>(values[i]));
        diff[i] = before;
        return before;
      });
    });
  });
}

Cost backward_cost(const ChannelBiasArgs& args) {
  return activates(args) ? cost_per_value<2, 12>(args) : cost_per_value<1, 4>(args);
}

constexpr std::uint32_t kChannelBiasColor = 0xbcbd22;

}  // namespace

Codelet<ChannelBiasArgs> channel_bias_forward({
    .name = "channel_bias_forward",
    .color = kChannelBiasColor,
    .implementations = OMNI_IMPLEMENTATIONS(channel_bias_forward, forward_vector, 1),
    .cost = cost_per_value<1, 8>,
    .footprint =
        footprint_by<&ChannelBiasArgs::rows, &ChannelBiasArgs::c, &ChannelBiasArgs::activation>,
});

Codelet<ChannelBiasArgs> channel_bias_backward({
    .name = "channel_bias_backward",
    .color = kChannelBiasColor,
    .implementations = OMNI_IMPLEMENTATIONS(channel_bias_backward, backward_vector, 0, 2),
    .cost = backward_cost,
    .footprint =
        footprint_by<&ChannelBiasArgs::rows, &ChannelBiasArgs::c, &ChannelBiasArgs::activation>,
    .revision = 2,
});

void submit_channel_bias_backward(const ChannelBiasArgs& args, const Tensor& diff,
                                  const Tensor& diff_bias, const Tensor* values, TaskTag tag) {
  channel_bias_backward.submit(
      args,
      {activates(args) ? read_write(diff) : read(diff), accumulate(diff_bias),
       if_any(read, activates(args) ? values : nullptr)},
      tag);
}

}  // namespace omni
