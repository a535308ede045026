#include "codelets/convolution/convolution.hpp"

#include "codelets/convolution/lowering.hpp"
#include "codelets/convolution/winograd.hpp"
#include "codelets/dense/gemm.hpp"
#include "codelets/dense/onednn_support.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

#ifdef OMNI_ONEDNN
constexpr Gemm kProduct = onednn::gemm;
#else
constexpr Gemm kProduct = gemm;
#endif

// The following kernels use oneDNN.

#ifdef OMNI_ONEDNN
// Returns whether oneDNN computes the shape without writing beyond its scratchpad. oneDNN's kernels
// first copy what a 1x1 filter with a stride reads. If a group has fewer channels than a register
// holds, they write too far. (2.6.3 does so on AVX2 with fewer than 8, on AVX-512 with fewer than
// 16.) Not every such size, padding or group fails, but shapes refused without need are rare.
bool is_safe_in_onednn(const auto& args) {
  const ConvShape& s = args.shape;
  return s.kernel_h > 1 || s.kernel_w > 1 || (s.stride_h == 1 && s.stride_w == 1) ||
         s.group_c() >= 16;
}
#endif

// The following kernels lower the convolution to matrix products.

template <Gemm product, class Args>
void by_lowering(const Args& args, const Buffers& buffers, DeviceContext& context) {
  lowering::run({product}, args, buffers, context);
}

// Returns whether lowering is fast. If there are several groups, with fewer than four channels or
// filters each, packing the matrices takes longer than multiplying them.
bool worth_lowering(const auto& args) {
  const ConvShape& s = args.shape;
  return s.groups == 1 || (s.group_c() >= 4 && s.group_filters() >= 4);
}

WorkingFloats lowering_floats(const auto& args, BufferSet) {
  return {.scratch = lowering::scratch_floats({}, args.shape)};
}

// The following kernels use Winograd's method.

template <int tile_in, class Args>
bool suits_winograd(const Args& args) {
  return winograd::suits(args.shape, tile_in);
}

template <int tile_in, class Args>
WorkingFloats winograd_floats(const Args& args, BufferSet) {
  return {.scratch = winograd::scratch_floats(args.shape, tile_in, Args::kPass)};
}

template <int tile_in, class Args>
void by_winograd(const Args& args, const Buffers& buffers, DeviceContext& context) {
  winograd::run({tile_in, kProduct}, args, buffers, context);
}

// Runs a kernel that always adds to the gradient of the weights. If args.adds is false, that
// gradient is cleared first. In the other passes this function only runs the kernel.
template <class Args, Kernel<Args> kernel>
void overwriting(const Args& args, const Buffers& buffers, DeviceContext& context) {
  if constexpr (Args::kPass == Pass::backward_weights)
    if (!args.adds) std::fill_n(buffers.get(2), args.shape.weights_count(), 0.0f);
  kernel(args, buffers, context);
}

// Lists the implementations. `in_bf16` are the buffers that oneDNN takes in bf16. `last` are the
// reference and the kernel for GPUs.
template <class Args>
std::vector<Implementation<Args>> conv_implementations(
    [[maybe_unused]] BufferSet in_bf16, const std::vector<Implementation<Args>>& last) {
  std::vector<Implementation<Args>> all{
#ifdef OMNI_ONEDNN
      {"onednn", overwriting<Args, conv_onednn>, is_safe_in_onednn, Role::fast, conv_onednn_floats,
       onednn::takes_bf16(in_bf16)},
      {"lowering_onednn", overwriting<Args, by_lowering<onednn::gemm>>, worth_lowering, Role::fast,
       lowering_floats},
#endif
      {"lowering", overwriting<Args, by_lowering<gemm>>, worth_lowering, Role::fast,
       lowering_floats},
      {"winograd", overwriting<Args, by_winograd<6>>, suits_winograd<6>, Role::fast,
       winograd_floats<6>},
      {"winograd_8x8", overwriting<Args, by_winograd<8>>, suits_winograd<8>, Role::fast,
       winograd_floats<8>}};
  all.insert(all.end(), last.begin(), last.end());
  return all;
}

template <class Args>
WorkingFloats conv_factors(const Args& args, BufferSet in_bf16) {
  const std::int64_t src = args.shape.src_count(), weights = args.shape.weights_count(),
                     dst = args.shape.dst_count();
  if constexpr (Args::kPass == Pass::forward) return rounded_factors(in_bf16, {src, weights, dst});
  if constexpr (Args::kPass == Pass::backward_data)
    return rounded_factors(in_bf16, {dst, weights, src});
  return rounded_factors(in_bf16, {src, dst, weights});
}

// The following functions return cost and footprint.

// The cost is the same for all three passes: they multiply the same pairs, and access tensors of
// the same sizes.
Cost convolution_cost(const auto& args) {
  const ConvShape& s = args.shape;
  return {.flops = 2.0 * static_cast<double>(s.dst_count()) * s.taps(),
          .bytes = 4.0 * static_cast<double>(s.src_count() + s.weights_count() + s.dst_count())};
}

template <class... More>
std::uint64_t convolution_footprint(const ConvShape& s, More... more) {
  return in_precision(footprint_of(s.n, s.h, s.w, s.c, s.filters, s.kernel_h, s.kernel_w,
                                   s.stride_h, s.stride_w, s.pad_h, s.pad_w, s.dilation_h,
                                   s.dilation_w, s.groups, more...));
}

std::uint64_t forward_footprint(const ConvForwardArgs& args) {
  return convolution_footprint(args.shape, args.activation, args.has_bias);
}

std::uint64_t weights_footprint(const ConvWeightsArgs& args) {
  const std::uint64_t adding = convolution_footprint(args.shape, args.has_bias);
  return args.adds ? adding : footprint_of(adding, args.adds);
}

std::uint64_t data_footprint(const ConvDataArgs& args) {
  return convolution_footprint(args.shape, args.adds);
}

}  // namespace

Codelet<ConvForwardArgs> conv_forward({
    .name = "conv_forward",
    .color = 0x1f77b4,
    .implementations = conv_implementations<ConvForwardArgs>(
        {0, 2}, {reference_implementation<reference::conv_forward<float>>(),
                 OMNI_GPU_PRODUCT(gpu::conv_forward, conv_factors, {1}, 0, 2)}),
    .cost = convolution_cost<ConvForwardArgs>,
    .footprint = forward_footprint,
});

Codelet<ConvWeightsArgs> conv_backward_weights({
    .name = "conv_backward_weights",
    .color = 0xd62728,
    .implementations = conv_implementations<ConvWeightsArgs>(
        {0, 1}, {reference_implementation<reference::conv_backward_weights<float>>(),
                 OMNI_GPU_PRODUCT(gpu::conv_backward_weights, conv_factors, {}, 0, 1)}),
    .cost = convolution_cost<ConvWeightsArgs>,
    .footprint = weights_footprint,
});

Codelet<ConvDataArgs> conv_backward_data({
    .name = "conv_backward_data",
    .color = 0xff7f0e,
    .implementations = conv_implementations<ConvDataArgs>(
        {0, 2}, {reference_implementation<reference::conv_backward_data<float>>(),
                 OMNI_GPU_PRODUCT(gpu::conv_backward_data, conv_factors, {1}, 0, 2)}),
    .cost = convolution_cost<ConvDataArgs>,
    .footprint = data_footprint,
});

void submit_conv_forward(ConvForwardArgs args, const Tensor& src, const Tensor& weights,
                         const Tensor* bias, const Tensor& dst, TaskTag tag) {
  args.has_bias = bias != nullptr;
  conv_forward.submit(args, {read(src), read(weights), write(dst), if_any(read, bias)}, tag);
}

void submit_conv_backward_weights(ConvWeightsArgs args, const Tensor& src, const Tensor& diff_dst,
                                  const Tensor& diff_weights, const Tensor* diff_bias,
                                  TaskTag tag) {
  args.has_bias = diff_bias != nullptr;
  conv_backward_weights.submit(
      args,
      {read(src), read(diff_dst), args.adds ? accumulate(diff_weights) : write(diff_weights),
       if_any(accumulate, diff_bias)},
      tag);
}

void submit_conv_backward_data(const ConvDataArgs& args, const Tensor& diff_dst,
                               const Tensor& weights, const Tensor& diff_src, TaskTag tag) {
  conv_backward_data.submit(
      args, {read(diff_dst), read(weights), args.adds ? accumulate(diff_src) : write(diff_src)},
      tag);
}

}  // namespace omni
