// Convolution on a GPU: cuDNN, whose algorithm is chosen when a worker meets a shape for the first
// time (the only time that it waits for the device, and the one that StarPU's models leave out);
// what cuDNN refuses is lowered.
#ifdef OMNI_CUDA

#include <array>
#include <utility>

#include "codelets/convolution/cudnn/convolution_plan.hpp"
#include "codelets/convolution/cudnn/lowered_convolution.hpp"
#include "codelets/cuda/plans.hpp"
#include "codelets/elementwise/channel_bias.hpp"
#include "runtime/bf16/float_copies.hpp"

namespace omni {
namespace {

using ActivationDescriptor =
    cudnn::Descriptor<cudnnActivationDescriptor_t, cudnnCreateActivationDescriptor,
                      cudnnDestroyActivationDescriptor>;

// Bias and activation within the convolution, where cuDNN can.
class CudnnForwardPlan {
 public:
  CudnnForwardPlan(CudaWorker& worker, const ConvForwardArgs& args, const Buffers& buffers)
      : plan_(worker, args.shape, 0.0f, buffers.in_bf16(), buffers.get<void>(0),
              buffers.get<void>(1), sizeof(Bf16) * static_cast<std::size_t>(args.shape.filters)) {
    const bool linear = args.activation == Activation::linear;
    if (!plan_.usable() || !plan_.in_place() || !args.has_bias ||
        (!linear && args.activation != Activation::relu))
      return;
    // The only one that knows the identity; others have been seen to take it for something else.
    if (linear && plan_.algorithm() != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) return;
    check(cudnnSetTensor4dDescriptor(bias_, CUDNN_TENSOR_NHWC, plan_.type(), 1, args.shape.filters,
                                     1, 1),
          "describing a bias to cuDNN");
    check(cudnnSetActivationDescriptor(activation_,
                                       linear ? CUDNN_ACTIVATION_IDENTITY : CUDNN_ACTIVATION_RELU,
                                       CUDNN_PROPAGATE_NAN, 0.0),
          "describing an activation to cuDNN");
    const TrialMemory trial(worker,
                            sizeof(float) * static_cast<std::size_t>(args.shape.dst_count()));
    fuses_ = enqueue_fused(worker, args, buffers, trial.data()) == CUDNN_STATUS_SUCCESS;
    cudaGetLastError();  // a refusal may leave one
  }

  bool usable() const { return plan_.usable(); }

  void run(CudaWorker& worker, const ConvForwardArgs& args, const Buffers& buffers) const {
    if (fuses_) {
      check(enqueue_fused(worker, args, buffers, buffers.get<void>(2)), "a convolution of cuDNN");
      return;
    }
    plan_.run(worker, buffers.get<void>(0), buffers.get<void>(1), buffers.get<void>(2));
    with_values(buffers, [&]<class T>(T) {
      gpu::add_bias_and_activate(worker, args.shape.pixels(), args.shape.filters,
                                 args.has_bias ? buffers.get(3) : nullptr, args.activation,
                                 buffers.get<T>(2));
    });
  }

 private:
  cudnnStatus_t enqueue_fused(CudaWorker& worker, const ConvForwardArgs& args,
                              const Buffers& buffers, void* dst) const {
    const float one = 1, zero = 0;
    const cudnn::Geometry& g = plan_.geometry();
    const auto [src, weights, out] =
        plan_.bring(worker, buffers.get<void>(0), buffers.get<void>(1), dst);
    const void* bias = buffers.get<void>(3);
    if (plan_.type() != CUDNN_DATA_FLOAT) {  // it has to be of the same type
      auto* rounded = reinterpret_cast<Bf16*>(plan_.spare(worker));
      gpu::round(worker, args.shape.filters, buffers.get(3), rounded);
      bias = rounded;
    }
    return cudnnConvolutionBiasActivationForward(
        worker.dnn(), &one, g.src, src, g.weights, weights, g.convolution, plan_.algorithm(),
        plan_.workspace(worker), plan_.workspace_bytes(), &zero, g.dst, out, bias_, bias,
        activation_, g.dst, out);
  }

  cudnn::ConvolutionPlan<cudnn::ForwardPass> plan_;
  cudnn::TensorDescriptor bias_;
  ActivationDescriptor activation_;
  bool fuses_ = false;
};

class CudnnWeightsPlan {
 public:
  CudnnWeightsPlan(CudaWorker& worker, const ConvWeightsArgs& args, const Buffers& buffers)
      : plan_(worker, args.shape, 1.0f, buffers.in_bf16(), buffers.get<void>(0),
              buffers.get<void>(1)) {}

  bool usable() const { return plan_.usable(); }

  void run(CudaWorker& worker, const ConvWeightsArgs& args, const Buffers& buffers) const {
    plan_.run(worker, buffers.get<void>(0), buffers.get<void>(1), buffers.get<void>(2));
    if (!args.has_bias) return;
    with_values(buffers, [&]<class T>(T) {
      gpu::add_column_sums(worker, args.shape.pixels(), args.shape.filters, buffers.get<T>(1),
                           buffers.get(3));
    });
  }

 private:
  cudnn::ConvolutionPlan<cudnn::WeightsPass> plan_;
};

class CudnnDataPlan {
 public:
  CudnnDataPlan(CudaWorker& worker, const ConvDataArgs& args, const Buffers& buffers)
      : plan_(worker, args.shape, args.adds ? 1.0f : 0.0f, buffers.in_bf16(), buffers.get<void>(1),
              buffers.get<void>(0)) {}

  bool usable() const { return plan_.usable(); }

  void run(CudaWorker& worker, const ConvDataArgs&, const Buffers& buffers) const {
    plan_.run(worker, buffers.get<void>(1), buffers.get<void>(0), buffers.get<void>(2));
  }

 private:
  cudnn::ConvolutionPlan<cudnn::DataPass> plan_;
};

BufferUse use_in_bf16(std::int64_t count, AccessMode mode) {
  return {static_cast<std::uint32_t>(count), mode, true};
}

// Bias or its gradient, the last buffer, is in floats.
std::array<BufferUse, 4> uses_in_bf16(const ConvForwardArgs& args) {
  return {use_in_bf16(args.shape.src_count(), AccessMode::read), BufferUse(),
          use_in_bf16(args.shape.dst_count(), AccessMode::write), BufferUse()};
}
std::array<BufferUse, 4> uses_in_bf16(const ConvWeightsArgs& args) {
  return {use_in_bf16(args.shape.src_count(), AccessMode::read),
          use_in_bf16(args.shape.dst_count(), AccessMode::read), BufferUse(), BufferUse()};
}
std::array<BufferUse, 4> uses_in_bf16(const ConvDataArgs& args) {
  return {
      use_in_bf16(args.shape.dst_count(), AccessMode::read), BufferUse(),
      use_in_bf16(args.shape.src_count(), args.adds ? AccessMode::read_write : AccessMode::write),
      BufferUse()};
}

template <class Args>
void run_without_cudnn(Kernel<Args> lowered, const Args& args, const Buffers& buffers,
                       DeviceContext& context) {
  if (!buffers.in_bf16()) return lowered(args, buffers, context);
  std::array<void*, 4> pointers{};
  for (std::size_t i = 0; i < buffers.count(); ++i) pointers[i] = buffers.get<void>(i);
  const FloatCopies copies(kCopyOnGpu, context, uses_in_bf16(args), pointers);
  lowered(args, Buffers(pointers), context);
  copies.write_back();
}

template <class Plan, class Args>
void run(const Args& args, const Buffers& buffers, DeviceContext& context, Kernel<Args> lowered) {
  CudaWorker& worker = CudaWorker::current();
  const Plan& plan =
      plan_for<Plan>(worker, context, std::pair(buffers.in_bf16(), args), worker, args, buffers);
  if (plan.usable())
    plan.run(worker, args, buffers);
  else
    run_without_cudnn(lowered, args, buffers, context);
}

}  // namespace

void gpu::conv_forward(const ConvForwardArgs& args, const Buffers& buffers,
                       DeviceContext& context) {
  run<CudnnForwardPlan>(args, buffers, context, conv_forward_lowered);
}

void gpu::conv_backward_weights(const ConvWeightsArgs& args, const Buffers& buffers,
                                DeviceContext& context) {
  run<CudnnWeightsPlan>(args, buffers, context, conv_backward_weights_lowered);
}

void gpu::conv_backward_data(const ConvDataArgs& args, const Buffers& buffers,
                             DeviceContext& context) {
  run<CudnnDataPlan>(args, buffers, context, conv_backward_data_lowered);
}

}  // namespace omni

#endif
