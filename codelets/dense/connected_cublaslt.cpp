// The connected layer on a GPU: a matrix product of cuBLASLt each, which ends in bias and relu
// where they are wanted; cuBLAS does what cuBLASLt refuses. The bias's gradient is a pass of its
// own: cuBLASLt can sum columns while it multiplies, but it overwrites where we add, so that a pass
// to add the sums would be left, and who adds in which order is not said.
#ifdef OMNI_CUDA

#include "codelets/cuda/gemm.cuh"
#include "codelets/cuda/matmul.hpp"
#include "codelets/dense/connected.hpp"
#include "codelets/elementwise/channel_bias.hpp"

namespace omni {

void gpu::connected_forward(const ConnectedForwardArgs& args, const Buffers& buffers,
                            DeviceContext&) {
  const auto& [n, inputs, outputs] = args.shape;
  CudaWorker& worker = CudaWorker::current();
  const float *src = buffers.get(0), *weights = buffers.get(1);
  float* const dst = buffers.get(2);
  const float* bias = args.has_bias ? buffers.get(3) : nullptr;
  const bool ends_in_bias = can_end_in(bias);
  const auto multiplied = [&](bool ends_in_relu) {
    const Matmul product{.m = n,
                         .n = outputs,
                         .k = inputs,
                         .a = {inputs},
                         .b = {inputs, true},
                         .product = {outputs},
                         .bias = ends_in_bias,
                         .relu = ends_in_relu};
    if (!matmul(worker, product, {src, weights, dst, bias})) return false;
    add_bias_and_activate(worker, n, outputs, ends_in_bias ? nullptr : bias,
                          ends_in_relu ? Activation::linear : args.activation, dst);
    return true;
  };
  const bool relu = args.activation == Activation::relu && (bias == nullptr || ends_in_bias);
  if ((relu && multiplied(true)) || multiplied(false)) return;
  gemm(worker, n, outputs, inputs, {src, inputs}, {weights, inputs, true}, 0.0f, dst, outputs);
  add_bias_and_activate(worker, n, outputs, bias, args.activation, dst);
}

void gpu::connected_backward_weights(const ConnectedWeightsArgs& args, const Buffers& buffers,
                                     DeviceContext&) {
  const auto& [n, inputs, outputs] = args.shape;
  CudaWorker& worker = CudaWorker::current();
  const float *src = buffers.get(0), *diff_dst = buffers.get(1);
  float* const diff_weights = buffers.get(2);
  if (!matmul(worker,
              {.m = outputs,
               .n = inputs,
               .k = n,
               .a = {outputs, true},
               .b = {inputs},
               .product = {inputs},
               .adds = args.adds},
              {diff_dst, src, diff_weights}))
    gemm(worker, outputs, inputs, n, {diff_dst, outputs, true}, {src, inputs},
         args.adds ? 1.0f : 0.0f, diff_weights, inputs);
  if (args.has_bias) add_column_sums(worker, n, outputs, diff_dst, buffers.get(3));
}

void gpu::connected_backward_data(const ConnectedDataArgs& args, const Buffers& buffers,
                                  DeviceContext&) {
  const auto& [n, inputs, outputs] = args.shape;
  CudaWorker& worker = CudaWorker::current();
  const float *diff_dst = buffers.get(0), *weights = buffers.get(1);
  float* const diff_src = buffers.get(2);
  if (!matmul(
          worker,
          {.m = n, .n = inputs, .k = outputs, .a = {outputs}, .b = {inputs}, .product = {inputs}},
          {diff_dst, weights, diff_src}))
    gemm(worker, n, inputs, outputs, {diff_dst, outputs}, {weights, inputs}, 0.0f, diff_src,
         inputs);
}

}  // namespace omni

#endif
