// This file computes the connected layer on a GPU. Each pass is a matrix product of cuBLASLt, which
// for results in floats also adds the bias and applies relu. If cuBLASLt refuses a product, cuBLAS
// computes it.
//
// Another kernel computes the bias's gradient. cuBLASLt can sum columns while it multiplies. But it
// overwrites the gradient instead of adding to it, and does not say in which order it sums.
#include "codelets/cuda/matmul.hpp"
#include "codelets/cuda/rounded_factors.hpp"
#include "codelets/dense/connected.hpp"
#include "codelets/elementwise/channel_bias.hpp"

namespace omni {
namespace {

template <class T, class To>
gpu::Matmul product_of(int m, int n, int k, bool flip_a, bool flip_b) {
  return {.m = m,
          .n = n,
          .k = k,
          .a = {flip_a ? m : k, flip_a, gpu::kCudaType<T>},
          .b = {flip_b ? k : n, flip_b, gpu::kCudaType<T>},
          .product = {n, false, gpu::kCudaType<To>}};
}

// Calls use(T(), To()): the types of factors, and of the values in the buffers.
void with_types(const Buffers& buffers, auto use) {
  with_values(buffers, [&]<class To>(To value) {
    if constexpr (std::is_same_v<To, Bf16>)
      use(Bf16(), value);
    else
      gpu::with_factors([&](auto factor) { use(factor, value); });
  });
}

gpu::Factored values(const Buffers& buffers, std::size_t number, std::int64_t count) {
  return {buffers.get<void>(number), count, buffers.in_bf16()};
}
gpu::Factored weights(const Buffers& buffers, const ConnectedShape& shape) {
  return {buffers.get<void>(1), shape.weights_count(), buffers.weights_in_bf16()};
}

template <class T, class To>
void forward(const ConnectedForwardArgs& args, const Buffers& buffers) {
  CudaWorker& worker = CudaWorker::current();
  const ConnectedShape& s = args.shape;
  const float* bias = args.has_bias ? buffers.get(3) : nullptr;
  To* const dst = buffers.get<To>(2);
  const auto [src, matrix] = gpu::as_factors<T>(
      worker, std::array{values(buffers, 0, s.src_count()), weights(buffers, s)});
  const gpu::MatmulOperands operands{src, matrix, dst, bias};
  gpu::Matmul product = product_of<T, To>(s.n, s.outputs, s.inputs, false, true);
  // cuBLASLt can add a bias to values in bf16 only if the bias is in bf16, but it is in floats.
  product.bias = std::is_same_v<To, float> && gpu::can_end_in(bias);
  product.relu = args.activation == Activation::relu && (bias == nullptr || product.bias);
  if (product.relu && gpu::matmul(worker, product, operands)) return;
  product.relu = false;
  if (product.bias && gpu::matmul(worker, product, operands)) {
    bias = nullptr;
  } else {
    product.bias = false;
    gpu::multiply(worker, product, operands);
  }
  gpu::add_bias_and_activate(worker, s.n, s.outputs, bias, args.activation, dst);
}

}  // namespace

void gpu::connected_forward(const ConnectedForwardArgs& args, const Buffers& buffers,
                            DeviceContext&) {
  with_types(buffers, [&]<class T, class To>(T, To) { forward<T, To>(args, buffers); });
}

void gpu::connected_backward_weights(const ConnectedWeightsArgs& args, const Buffers& buffers,
                                     DeviceContext&) {
  CudaWorker& worker = CudaWorker::current();
  const ConnectedShape& s = args.shape;
  with_types(buffers, [&]<class T, class To>(T, To) {
    Matmul product = product_of<T, float>(s.outputs, s.inputs, s.n, true, false);
    product.adds = args.adds;
    const auto [diff_dst, src] = as_factors<T>(
        worker, std::array{values(buffers, 1, s.dst_count()), values(buffers, 0, s.src_count())});
    multiply(worker, product, {diff_dst, src, buffers.get(2)});
    if (args.has_bias)
      add_column_sums(worker, s.n, s.outputs, buffers.get<const To>(1), buffers.get(3));
  });
}

void gpu::connected_backward_data(const ConnectedDataArgs& args, const Buffers& buffers,
                                  DeviceContext&) {
  CudaWorker& worker = CudaWorker::current();
  const ConnectedShape& s = args.shape;
  with_types(buffers, [&]<class T, class To>(T, To) {
    const auto [diff_dst, matrix] =
        as_factors<T>(worker, std::array{values(buffers, 0, s.dst_count()), weights(buffers, s)});
    multiply(worker, product_of<T, To>(s.n, s.inputs, s.outputs, false, false),
             {diff_dst, matrix, buffers.get<To>(2)});
  });
}

}  // namespace omni
