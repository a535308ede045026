#include "codelets/dense/connected.hpp"

#include "codelets/dense/connected_onednn.hpp"
#include "codelets/dense/gemm.hpp"
#include "codelets/dense/onednn_support.hpp"
#include "codelets/elementwise/channel_bias.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

// The following kernels compute each pass by one matrix product of OpenBLAS or oneDNN.

template <Gemm product>
void forward_gemm(const ConnectedForwardArgs& args, const Buffers& buffers, DeviceContext&) {
  const auto& [n, inputs, outputs] = args.shape;
  product(n, outputs, inputs, {buffers.get(0), inputs}, {buffers.get(1), inputs, true}, 0.0f,
          buffers.get(2), outputs);
  add_bias_and_activate(n, outputs, args.has_bias ? buffers.get(3) : nullptr, args.activation,
                        buffers.get(2));
}

template <Gemm product>
void backward_weights_gemm(const ConnectedWeightsArgs& args, const Buffers& buffers,
                           DeviceContext&) {
  const auto& [n, inputs, outputs] = args.shape;
  product(outputs, inputs, n, {buffers.get(1), outputs, true}, {buffers.get(0), inputs},
          args.adds ? 1.0f : 0.0f, buffers.get(2), inputs);
  if (args.has_bias) add_column_sums(n, outputs, buffers.get(1), buffers.get(3));
}

template <Gemm product>
void backward_data_gemm(const ConnectedDataArgs& args, const Buffers& buffers, DeviceContext&) {
  const auto& [n, inputs, outputs] = args.shape;
  product(n, inputs, outputs, {buffers.get(0), outputs}, {buffers.get(1), inputs}, 0.0f,
          buffers.get(2), inputs);
}

// The following kernels use oneDNN.

#ifdef OMNI_ONEDNN
WorkingFloats matmul_floats(const auto& args, BufferSet) {
  return {.scratch = onednn::connected_floats(args.shape)};
}

void forward_onednn(const ConnectedForwardArgs& args, const Buffers& buffers,
                    DeviceContext& context) {
  // With few images oneDNN's matmul is slower than its gemm. But gemm cannot multiply in bf16
  // (perf/RESULTS.md).
  if (args.shape.n < 8 && !in_bf16()) return forward_gemm<onednn::gemm>(args, buffers, context);
  onednn::connected_forward(args.shape, buffers.get(0), buffers.get(1), buffers.get(2), context);
  add_bias_and_activate(args.shape.n, args.shape.outputs, args.has_bias ? buffers.get(3) : nullptr,
                        args.activation, buffers.get(2));
}

// Computes the gradient of the weights. In fp32 oneDNN's gemm is faster for it than its matmul.
void backward_weights_onednn(const ConnectedWeightsArgs& args, const Buffers& buffers,
                             DeviceContext& context) {
  if (!in_bf16()) return backward_weights_gemm<onednn::gemm>(args, buffers, context);
  const auto& [n, inputs, outputs] = args.shape;
  if (!args.adds) std::fill_n(buffers.get(2), args.shape.weights_count(), 0.0f);
  onednn::connected_weights_gradient(args.shape, outputs, buffers.get(0), context)(buffers.get(1),
                                                                                   buffers.get(2));
  if (args.has_bias) add_column_sums(n, outputs, buffers.get(1), buffers.get(3));
}

void backward_data_onednn(const ConnectedDataArgs& args, const Buffers& buffers,
                          DeviceContext& context) {
  if (!in_bf16()) return backward_data_gemm<onednn::gemm>(args, buffers, context);
  onednn::connected_backward_data(args.shape, buffers.get(0), buffers.get(1), buffers.get(2),
                                  context);
}
#endif

// Each pass multiplies two of these: src, weights, dst.
template <Pass pass>
WorkingFloats connected_factors(const auto& args, BufferSet in_bf16) {
  const ConnectedShape& s = args.shape;
  return rounded_factors(in_bf16,
                         {pass == Pass::backward_data ? s.dst_count() : s.src_count(),
                          pass == Pass::backward_weights ? s.dst_count() : s.weights_count()});
}

// The following functions return cost and footprint.

// The cost is the same for all three passes: they multiply the same pairs, and access tensors of
// the same sizes.
Cost connected_cost(const auto& args) {
  const ConnectedShape& s = args.shape;
  return {.flops = 2.0 * static_cast<double>(s.weights_count()) * s.n,
          .bytes = 4.0 * static_cast<double>(s.src_count() + s.weights_count() + s.dst_count())};
}

std::uint64_t forward_footprint(const ConnectedForwardArgs& args) {
  return in_precision(footprint_of(args.shape.n, args.shape.inputs, args.shape.outputs,
                                   args.activation, args.has_bias));
}

std::uint64_t weights_footprint(const ConnectedWeightsArgs& args) {
  const std::uint64_t adding =
      footprint_of(args.shape.n, args.shape.inputs, args.shape.outputs, args.has_bias);
  return in_precision(args.adds ? adding : footprint_of(adding, args.adds));
}

std::uint64_t data_footprint(const ConnectedDataArgs& args) {
  return in_precision(footprint_of(args.shape.n, args.shape.inputs, args.shape.outputs));
}

}  // namespace

Codelet<ConnectedForwardArgs> connected_forward({
    .name = "connected_forward",
    .color = 0x2ca02c,
    .implementations =
        {
#ifdef OMNI_ONEDNN
            {"onednn", forward_onednn, nullptr, Role::fast, matmul_floats},
#endif
            {"gemm", forward_gemm<gemm>},
            reference_implementation<reference::connected_forward<float>>(),
            OMNI_GPU_PRODUCT(gpu::connected_forward, connected_factors<Pass::forward>, {1}, 0, 2)},
    .cost = connected_cost<ConnectedForwardArgs>,
    .footprint = forward_footprint,
    .revision = 2,
});

Codelet<ConnectedWeightsArgs> connected_backward_weights({
    .name = "connected_backward_weights",
    .color = 0x8c564b,
    .implementations =
        {
#ifdef OMNI_ONEDNN
            {"onednn", backward_weights_onednn, nullptr, Role::fast, matmul_floats},
#endif
            {"gemm", backward_weights_gemm<gemm>},
            reference_implementation<reference::connected_backward_weights<float>>(),
            OMNI_GPU_PRODUCT(gpu::connected_backward_weights,
                             connected_factors<Pass::backward_weights>, {}, 0, 1)},
    .cost = connected_cost<ConnectedWeightsArgs>,
    .footprint = weights_footprint,
    .revision = 2,
});

Codelet<ConnectedDataArgs> connected_backward_data({
    .name = "connected_backward_data",
    .color = 0xe377c2,
    .implementations =
        {
#ifdef OMNI_ONEDNN
            {"onednn", backward_data_onednn, nullptr, Role::fast, matmul_floats},
#endif
            {"gemm", backward_data_gemm<gemm>},
            reference_implementation<reference::connected_backward_data<float>>(),
            OMNI_GPU_PRODUCT(gpu::connected_backward_data, connected_factors<Pass::backward_data>,
                             {1}, 0, 2)},
    .cost = connected_cost<ConnectedDataArgs>,
    .footprint = data_footprint,
    .revision = 2,
});

void submit_connected_forward(ConnectedForwardArgs args, const Tensor& src, TensorPart weights,
                              std::optional<TensorPart> bias, const Tensor& dst, TaskTag tag) {
  args.has_bias = bias.has_value();
  connected_forward.submit(args, {read(src), read(weights), write(dst), if_any(read, bias)}, tag);
}

void submit_connected_backward_weights(ConnectedWeightsArgs args, const Tensor& src,
                                       const Tensor& diff_dst, TensorPart diff_weights,
                                       std::optional<TensorPart> diff_bias, TaskTag tag) {
  args.has_bias = diff_bias.has_value();
  connected_backward_weights.submit(
      args,
      {read(src), read(diff_dst), args.adds ? accumulate(diff_weights) : write(diff_weights),
       if_any(accumulate, diff_bias)},
      tag);
}

}  // namespace omni
