#include "codelets/elementwise/channel_bias.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

void forward_vector(const ChannelBiasForwardArgs& args, const Buffers& buffers, DeviceContext&) {
  add_bias_and_activate(args.rows, args.c, buffers.get(0), args.activation, buffers.get(1));
}

void forward_reference(const ChannelBiasForwardArgs& args, const Buffers& buffers, DeviceContext&) {
  reference::channel_bias_forward(args, buffers.get(0), buffers.get(1));
}

bool activates(const ChannelBiasBackwardArgs& args) {
  return args.activation != Activation::linear;
}

void backward_vector(const ChannelBiasBackwardArgs& args, const Buffers& buffers, DeviceContext&) {
  float* __restrict diff = buffers.get(0);
  if (activates(args)) {
    const float* __restrict values = buffers.get(2);
    with_activation(args.activation, [=](auto f) {
      for (std::int64_t i = 0; i < args.rows * args.c; ++i) diff[i] *= f.gradient(values[i]);
    });
  }
  add_column_sums(args.rows, args.c, diff, buffers.get(1));
}

void backward_reference(const ChannelBiasBackwardArgs& args, const Buffers& buffers,
                        DeviceContext&) {
  reference::channel_bias_backward(args, buffers.get(0), buffers.get(1),
                                   activates(args) ? buffers.get(2) : nullptr);
}

Cost forward_cost(const ChannelBiasForwardArgs& args) {
  const double count = static_cast<double>(args.rows) * args.c;
  return {.flops = count, .bytes = 8 * count};
}

Cost backward_cost(const ChannelBiasBackwardArgs& args) {
  const double count = static_cast<double>(args.rows) * args.c;
  return activates(args) ? Cost{.flops = 2 * count, .bytes = 12 * count}
                         : Cost{.flops = count, .bytes = 4 * count};
}

std::uint64_t forward_footprint(const ChannelBiasForwardArgs& args) {
  return footprint_of(args.rows, args.c, args.activation);
}

std::uint64_t backward_footprint(const ChannelBiasBackwardArgs& args) {
  return footprint_of(args.rows, args.c, args.activation);
}

constexpr std::uint32_t kChannelBiasColor = 0xbcbd22;

}  // namespace

Codelet<ChannelBiasForwardArgs> channel_bias_forward({
    .name = "channel_bias_forward",
    .color = kChannelBiasColor,
    .implementations = {{"vector", forward_vector},
                        {"reference", forward_reference, nullptr, Role::reference},
                        OMNI_GPU_IMPLEMENTATION(gpu::channel_bias_forward, 1)},
    .cost = forward_cost,
    .footprint = forward_footprint,
});

Codelet<ChannelBiasBackwardArgs> channel_bias_backward({
    .name = "channel_bias_backward",
    .color = kChannelBiasColor,
    .implementations = {{"vector", backward_vector},
                        {"reference", backward_reference, nullptr, Role::reference},
                        OMNI_GPU_IMPLEMENTATION(gpu::channel_bias_backward, 0, 2)},
    .cost = backward_cost,
    .footprint = backward_footprint,
});

void submit_channel_bias_forward(const ChannelBiasForwardArgs& args, const Tensor& bias,
                                 const Tensor& values, TaskTag tag) {
  channel_bias_forward.submit(args, {read(bias), read_write(values)}, tag);
}

void submit_channel_bias_backward(const ChannelBiasBackwardArgs& args, const Tensor& diff,
                                  const Tensor& diff_bias, const Tensor* values, TaskTag tag) {
  if (activates(args))
    channel_bias_backward.submit(args, {read_write(diff), accumulate(diff_bias), read(*values)},
                                 tag);
  else
    channel_bias_backward.submit(args, {read(diff), accumulate(diff_bias)}, tag);
}

}  // namespace omni
