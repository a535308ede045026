// The connected layer on a GPU: a matrix product of cuBLAS each. Bias and activation are a pass of
// their own over dst, which is small beside the weights.
#include "codelets/dense/connected.hpp"

#include "codelets/cuda/gemm.cuh"
#include "codelets/elementwise/channel_bias.hpp"

namespace omni {

void gpu::connected_forward(const ConnectedForwardArgs& args, const Buffers& buffers,
                            DeviceContext&) {
  const auto& [n, inputs, outputs] = args.shape;
  CudaWorker& worker = CudaWorker::current();
  gemm(worker, n, outputs, inputs, {buffers.get(0), inputs}, {buffers.get(1), inputs, true}, 0.0f,
       buffers.get(2), outputs);
  add_bias_and_activate(worker, n, outputs, args.has_bias ? buffers.get(3) : nullptr,
                        args.activation, buffers.get(2));
}

void gpu::connected_backward_weights(const ConnectedWeightsArgs& args, const Buffers& buffers,
                                     DeviceContext&) {
  const auto& [n, inputs, outputs] = args.shape;
  CudaWorker& worker = CudaWorker::current();
  gemm(worker, outputs, inputs, n, {buffers.get(1), outputs, true}, {buffers.get(0), inputs}, 1.0f,
       buffers.get(2), inputs);
  if (args.has_bias) add_column_sums(worker, n, outputs, buffers.get(1), buffers.get(3));
}

void gpu::connected_backward_data(const ConnectedDataArgs& args, const Buffers& buffers,
                                  DeviceContext&) {
  const auto& [n, inputs, outputs] = args.shape;
  gemm(CudaWorker::current(), n, inputs, outputs, {buffers.get(0), outputs},
       {buffers.get(1), inputs}, 0.0f, buffers.get(2), inputs);
}

}  // namespace omni
