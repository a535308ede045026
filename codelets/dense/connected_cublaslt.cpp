// This file computes the connected layer on a GPU. Each pass is a matrix product of cuBLASLt, which
// for floats also adds the bias and applies relu. If cuBLASLt refuses a product, cuBLAS computes
// it.
//
// Another kernel computes the bias's gradient. cuBLASLt can sum columns while it multiplies. But it
// overwrites the gradient instead of adding to it, and does not say in which order it sums.
#include "codelets/cuda/matmul.hpp"
#include "codelets/dense/connected.hpp"
#include "codelets/elementwise/channel_bias.hpp"

namespace omni {
namespace {

template <class T, class To = T>
gpu::Matmul product_of(int m, int n, int k, bool flip_a, bool flip_b) {
  return {.m = m,
          .n = n,
          .k = k,
          .a = {flip_a ? m : k, flip_a, gpu::kCudaType<T>},
          .b = {flip_b ? k : n, flip_b, gpu::kCudaType<T>},
          .product = {n, false, gpu::kCudaType<To>}};
}

template <class T>
void forward(const ConnectedForwardArgs& args, const Buffers& buffers) {
  CudaWorker& worker = CudaWorker::current();
  const int n = args.shape.n, outputs = args.shape.outputs;
  const float* bias = args.has_bias ? buffers.get(3) : nullptr;
  T* const dst = buffers.get<T>(2);
  const gpu::MatmulOperands operands{buffers.get<T>(0), buffers.get<T>(1), dst, bias};
  gpu::Matmul product = product_of<T>(n, outputs, args.shape.inputs, false, true);
  // cuBLASLt can add a bias to values in bf16 only if the bias is in bf16, but it is in floats.
  product.bias = std::is_same_v<T, float> && gpu::can_end_in(bias);
  product.relu = args.activation == Activation::relu && (bias == nullptr || product.bias);
  if (product.relu && gpu::matmul(worker, product, operands)) return;
  product.relu = false;
  if (product.bias && gpu::matmul(worker, product, operands)) {
    bias = nullptr;
  } else {
    product.bias = false;
    gpu::multiply(worker, product, operands);
  }
  gpu::add_bias_and_activate(worker, n, outputs, bias, args.activation, dst);
}

}  // namespace

void gpu::connected_forward(const ConnectedForwardArgs& args, const Buffers& buffers,
                            DeviceContext&) {
  with_values(buffers, [&]<class T>(T) { forward<T>(args, buffers); });
}

void gpu::connected_backward_weights(const ConnectedWeightsArgs& args, const Buffers& buffers,
                                     DeviceContext&) {
  CudaWorker& worker = CudaWorker::current();
  const int n = args.shape.n, outputs = args.shape.outputs;
  with_values(buffers, [&]<class T>(T) {
    const T* diff_dst = buffers.get<T>(1);
    Matmul product = product_of<T, float>(outputs, args.shape.inputs, n, true, false);
    product.adds = args.adds;
    multiply(worker, product, {diff_dst, buffers.get<T>(0), buffers.get(2)});
    if (args.has_bias) add_column_sums(worker, n, outputs, diff_dst, buffers.get(3));
  });
}

void gpu::connected_backward_data(const ConnectedDataArgs& args, const Buffers& buffers,
                                  DeviceContext&) {
  const ConnectedShape& s = args.shape;
  with_values(buffers, [&]<class T>(T) {
    multiply(CudaWorker::current(), product_of<T>(s.n, s.inputs, s.outputs, false, false),
             {buffers.get<T>(0), buffers.get<T>(1), buffers.get<T>(2)});
  });
}

}  // namespace omni
