// Convolution on a GPU: cuDNN, whose algorithm is chosen when a worker meets a shape for the first
// time (the only time that it waits for the device, and the one that StarPU's models leave out);
// what cuDNN refuses is lowered.
#ifdef OMNI_CUDA

#include <algorithm>
#include <array>

#include "codelets/convolution/convolution.hpp"
#include "codelets/convolution/cudnn/convolution_plan.hpp"
#include "codelets/cuda/alignment.hpp"
#include "codelets/cuda/plans.hpp"
#include "codelets/elementwise/channel_bias.hpp"
#include "runtime/bf16/float_copies.hpp"

namespace omni {
namespace {

template <class Args>
cudnn::ConvolutionTask task_of(const Args& args, bool in_bf16) {
  cudnn::ConvolutionTask task{.pass = Args::kPass, .shape = args.shape, .bf16_values = in_bf16};
  if constexpr (Args::kPass == Pass::forward)
    task.activation = args.activation;
  else
    task.adds = args.adds;
  return task;
}

cudnn::ConvolutionTensors tensors_of(const ConvForwardArgs& args, const Buffers& buffers) {
  return {{buffers.get<void>(0), buffers.get<void>(1), buffers.get<void>(2)},
          args.has_bias ? buffers.get(3) : nullptr};
}
cudnn::ConvolutionTensors tensors_of(const ConvWeightsArgs&, const Buffers& buffers) {
  return {{buffers.get<void>(0), buffers.get<void>(2), buffers.get<void>(1)}};
}
cudnn::ConvolutionTensors tensors_of(const ConvDataArgs&, const Buffers& buffers) {
  return {{buffers.get<void>(2), buffers.get<void>(1), buffers.get<void>(0)}};
}

BufferUse use_in_bf16(std::int64_t count, AccessMode mode) {
  return {static_cast<std::uint32_t>(count), mode, true};
}

// Weights that are read may be in bf16. Bias or its gradient, the last buffer, is in floats.
std::array<BufferUse, 4> uses_in_bf16(const ConvForwardArgs& args, const BufferUse& weights) {
  return {use_in_bf16(args.shape.src_count(), AccessMode::read), weights,
          use_in_bf16(args.shape.dst_count(), AccessMode::write), BufferUse()};
}
std::array<BufferUse, 4> uses_in_bf16(const ConvWeightsArgs& args, const BufferUse&) {
  return {use_in_bf16(args.shape.src_count(), AccessMode::read),
          use_in_bf16(args.shape.dst_count(), AccessMode::read), BufferUse(), BufferUse()};
}
std::array<BufferUse, 4> uses_in_bf16(const ConvDataArgs& args, const BufferUse& weights) {
  return {
      use_in_bf16(args.shape.dst_count(), AccessMode::read), weights,
      use_in_bf16(args.shape.src_count(), args.adds ? AccessMode::read_write : AccessMode::write),
      BufferUse()};
}

template <class Args>
void run_without_cudnn(Kernel<Args> lowered, const Args& args, const Buffers& buffers,
                       DeviceContext& context) {
  if (!buffers.in_bf16()) return lowered(args, buffers, context);
  std::array<void*, 4> pointers{};
  for (std::size_t i = 0; i < buffers.count(); ++i) pointers[i] = buffers.get<void>(i);
  const BufferUse weights = buffers.weights_in_bf16()
                                ? use_in_bf16(args.shape.weights_count(), AccessMode::read)
                                : BufferUse();
  const FloatCopies copies(kCopyOnGpu, context, uses_in_bf16(args, weights), pointers);
  lowered(args, Buffers(pointers), context);
  copies.write_back();
}

// False: nothing was done, since cuDNN can do nothing with the shape.
bool run(const auto& args, const Buffers& buffers) {
  CudaWorker& worker = CudaWorker::current();
  const cudnn::ConvolutionTensors tensors = tensors_of(args, buffers);
  cudnn::ConvolutionTask task = task_of(args, buffers.in_bf16());
  task.bf16_weights = buffers.weights_in_bf16();
  for (std::size_t i = 0; i < tensors.values.size(); ++i)
    if (!is_copied(task, i))
      task.alignment = std::min(task.alignment, alignment_of(tensors.values[i]));
  // Its bias is copied as the weights are.
  task.may_end =
      tensors.bias != nullptr && (is_copied(task, 1) || alignment_of(tensors.bias) == kWidestLoad);
  const auto& plan = plan_for<cudnn::ConvolutionPlan>(worker, task, worker, task, tensors);
  if (plan.usable()) plan.run(worker, tensors);
  return plan.usable();
}

}  // namespace

void gpu::conv_forward(const ConvForwardArgs& args, const Buffers& buffers,
                       DeviceContext& context) {
  if (!run(args, buffers)) run_without_cudnn(conv_forward_lowered, args, buffers, context);
}

void gpu::conv_backward_weights(const ConvWeightsArgs& args, const Buffers& buffers,
                                DeviceContext& context) {
  if (!run(args, buffers))
    return run_without_cudnn(conv_backward_weights_lowered, args, buffers, context);
  if (!args.has_bias) return;
  with_values(buffers, [&]<class T>(T) {
    add_column_sums(CudaWorker::current(), args.shape.pixels(), args.shape.filters,
                    buffers.get<T>(1), buffers.get(3));
  });
}

void gpu::conv_backward_data(const ConvDataArgs& args, const Buffers& buffers,
                             DeviceContext& context) {
  if (!run(args, buffers)) run_without_cudnn(conv_backward_data_lowered, args, buffers, context);
}

}  // namespace omni

#endif
