// Convolution on a GPU: cuDNN, whose algorithm is chosen when a worker meets a shape for the first
// time (the only time that it waits for the device, and the one that StarPU's models leave out);
// what cuDNN refuses is lowered.
#ifdef OMNI_CUDA

#include "codelets/convolution/cudnn/convolution_plan.hpp"
#include "codelets/convolution/cudnn/lowered_convolution.hpp"
#include "codelets/cuda/plans.hpp"
#include "codelets/elementwise/channel_bias.hpp"

namespace omni {
namespace {

using ActivationDescriptor =
    cudnn::Descriptor<cudnnActivationDescriptor_t, cudnnCreateActivationDescriptor,
                      cudnnDestroyActivationDescriptor>;

// Bias and activation within the convolution, where cuDNN can.
class CudnnForwardPlan {
 public:
  CudnnForwardPlan(CudaWorker& worker, const ConvForwardArgs& args, const Buffers& buffers)
      : plan_(worker, args.shape, 0.0f, buffers.get(0), buffers.get(1)) {
    const bool linear = args.activation == Activation::linear;
    if (!plan_.usable() || !plan_.in_place() || !args.has_bias ||
        (!linear && args.activation != Activation::relu))
      return;
    // The only one that knows the identity; others have been seen to take it for something else.
    if (linear && plan_.algorithm() != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) return;
    check(cudnnSetTensor4dDescriptor(bias_, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1,
                                     args.shape.filters, 1, 1),
          "describing a bias to cuDNN");
    check(cudnnSetActivationDescriptor(activation_,
                                       linear ? CUDNN_ACTIVATION_IDENTITY : CUDNN_ACTIVATION_RELU,
                                       CUDNN_PROPAGATE_NAN, 0.0),
          "describing an activation to cuDNN");
    const TrialMemory trial(worker,
                            sizeof(float) * static_cast<std::size_t>(args.shape.dst_count()));
    fuses_ = enqueue_fused(worker, buffers, trial.data()) == CUDNN_STATUS_SUCCESS;
    cudaGetLastError();  // a refusal may leave one
  }

  bool usable() const { return plan_.usable(); }

  void run(CudaWorker& worker, const ConvForwardArgs& args, const Buffers& buffers) const {
    float* const dst = buffers.get(2);
    if (fuses_) {
      check(enqueue_fused(worker, buffers, dst), "a convolution of cuDNN");
      return;
    }
    plan_.run(worker, buffers.get(0), buffers.get(1), dst);
    gpu::add_bias_and_activate(worker, args.shape.pixels(), args.shape.filters,
                               args.has_bias ? buffers.get(3) : nullptr, args.activation, dst);
  }

 private:
  cudnnStatus_t enqueue_fused(CudaWorker& worker, const Buffers& buffers, void* dst) const {
    const float one = 1, zero = 0;
    const cudnn::Geometry& g = plan_.geometry();
    return cudnnConvolutionBiasActivationForward(
        worker.dnn(), &one, g.src, buffers.get(0), g.weights, buffers.get(1), g.convolution,
        plan_.algorithm(), plan_.workspace(worker), plan_.workspace_bytes(), &zero, g.dst, dst,
        bias_, buffers.get(3), activation_, g.dst, dst);
  }

  cudnn::ConvolutionPlan<cudnn::ForwardPass> plan_;
  cudnn::TensorDescriptor bias_;
  ActivationDescriptor activation_;
  bool fuses_ = false;
};

class CudnnWeightsPlan {
 public:
  CudnnWeightsPlan(CudaWorker& worker, const ConvWeightsArgs& args, const Buffers& buffers)
      : plan_(worker, args.shape, 1.0f, buffers.get(0), buffers.get(1)) {}

  bool usable() const { return plan_.usable(); }

  void run(CudaWorker& worker, const ConvWeightsArgs& args, const Buffers& buffers) const {
    plan_.run(worker, buffers.get(0), buffers.get(1), buffers.get(2));
    if (args.has_bias)
      gpu::add_column_sums(worker, args.shape.pixels(), args.shape.filters, buffers.get(1),
                           buffers.get(3));
  }

 private:
  cudnn::ConvolutionPlan<cudnn::WeightsPass> plan_;
};

class CudnnDataPlan {
 public:
  CudnnDataPlan(CudaWorker& worker, const ConvDataArgs& args, const Buffers& buffers)
      : plan_(worker, args.shape, args.adds ? 1.0f : 0.0f, buffers.get(1), buffers.get(0)) {}

  bool usable() const { return plan_.usable(); }

  void run(CudaWorker& worker, const ConvDataArgs&, const Buffers& buffers) const {
    plan_.run(worker, buffers.get(1), buffers.get(0), buffers.get(2));
  }

 private:
  cudnn::ConvolutionPlan<cudnn::DataPass> plan_;
};

template <class Plan, class Args>
void run(const Args& args, const Buffers& buffers, DeviceContext& context,
         Kernel<Args> without_cudnn) {
  CudaWorker& worker = CudaWorker::current();
  const Plan& plan = plan_for<Plan>(worker, context, args, worker, args, buffers);
  if (plan.usable())
    plan.run(worker, args, buffers);
  else
    without_cudnn(args, buffers, context);
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
