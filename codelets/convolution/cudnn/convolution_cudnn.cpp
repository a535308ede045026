// This file convolves on a GPU: by cuDNN, or by lowering if cuDNN refuses the shape. The algorithm
// is chosen when a worker first meets a shape. That call waits for the GPU; StarPU's models leave
// out the first measurement of a shape. Later calls may try an algorithm, and wait, if their time
// does not count.
#include <algorithm>
#include <array>

#include "codelets/convolution/convolution.hpp"
#include "codelets/convolution/cudnn/convolution_plan.hpp"
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

// kPlaces has the numbers of the buffers of src, weights and dst.
template <class Args>
constexpr std::array<std::size_t, 3> kPlaces =
    Args::kPass == Pass::forward            ? std::array<std::size_t, 3>{0, 1, 2}
    : Args::kPass == Pass::backward_weights ? std::array<std::size_t, 3>{0, 2, 1}
                                            : std::array<std::size_t, 3>{2, 1, 0};

template <class Args>
cudnn::ConvolutionTensors tensors_of(const Args& args, const Buffers& buffers) {
  const auto [src, weights, dst] = kPlaces<Args>;
  cudnn::ConvolutionTensors tensors{
      {buffers.get<void>(src), buffers.get<void>(weights), buffers.get<void>(dst)}};
  if constexpr (Args::kPass == Pass::forward)
    if (args.has_bias) tensors.bias = buffers.get(3);
  return tensors;
}

// Returns which buffers a task takes in bf16. Weights that are read may be in bf16. The last
// buffer, bias or its gradient, always holds floats.
template <class Args>
std::array<BufferUse, 4> uses_in_bf16(const Args& args, const Buffers& buffers) {
  const auto [src, weights, dst] = kPlaces<Args>;
  const AccessMode result = task_of(args, true).adds ? AccessMode::read_write : AccessMode::write;
  std::array<BufferUse, 4> uses;
  const auto use = [&](std::size_t buffer, std::int64_t count) {
    uses[buffer] = {static_cast<std::uint32_t>(count), buffer < 2 ? AccessMode::read : result,
                    true};
  };
  use(src, args.shape.src_count());
  use(dst, args.shape.dst_count());
  if (buffers.weights_in_bf16()) use(weights, args.shape.weights_count());
  return uses;
}

template <class Args>
void run_without_cudnn(Kernel<Args> lowered, const Args& args, const Buffers& buffers,
                       DeviceContext& context) {
  if (!buffers.in_bf16()) return lowered(args, buffers, context);
  std::array<void*, 4> pointers{};
  for (std::size_t i = 0; i < buffers.count(); ++i) pointers[i] = buffers.get<void>(i);
  const FloatCopies copies(kCopyOnGpu, context, uses_in_bf16(args, buffers), pointers);
  lowered(args, Buffers(pointers), context);
  copies.write_back();
}

// Runs the pass by cuDNN. Returns false, and does nothing, if cuDNN cannot compute the shape.
bool run(const auto& args, const Buffers& buffers) {
  CudaWorker& worker = CudaWorker::current();
  const cudnn::ConvolutionTensors tensors = tensors_of(args, buffers);
  cudnn::ConvolutionTask task = task_of(args, buffers.in_bf16());
  task.bf16_weights = buffers.weights_in_bf16();
  for (std::size_t i = 0; i < tensors.values.size(); ++i)
    if (!is_copied(task, i))
      task.alignment = std::min(task.alignment, alignment_of(tensors.values[i]));
  // cuDNN may add the bias if the bias is aligned, or if cuDNN gets a copy of it. Whenever the
  // weights are copied, the bias is copied, too.
  task.may_end =
      tensors.bias != nullptr && (is_copied(task, 1) || alignment_of(tensors.bias) == kWidestLoad);
  auto& plan = plan_for<cudnn::ConvolutionPlan>(worker, task, worker, task, tensors);
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
