#include "codelets/dense/convolution.hpp"

#include "codelets/dense/convolution_onednn.hpp"
#include "codelets/dense/gemm.hpp"
#include "codelets/dense/lowering.hpp"
#include "codelets/dense/onednn_support.hpp"
#include "codelets/dense/winograd.hpp"
#include "codelets/elementwise/channel_bias.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

// ---- lowering: as many output rows as fit the budget, across images, make one matrix product, by
// OpenBLAS or oneDNN ----

// A band's lowered matrix and its part of dst should stay in the second-level cache, but the
// weights are packed anew for every band: below so many pixels that costs more than the cache
// gives.
constexpr std::int64_t kBandFloats = 1 << 18, kBandPixels = 192;

// One band of output rows: its lowered matrix, and where its part of dst begins.
struct Band {
  RowBand rows;
  int pixels;
  std::int64_t first_pixel;
};

template <class Use>
void for_each_band(const ConvShape& shape, Use use) {
  const std::int64_t rows = std::int64_t{shape.n} * shape.out_h();
  const std::int64_t floats_per_row =
      std::int64_t{shape.out_w()} * (std::int64_t{shape.taps()} + shape.filters);
  const std::int64_t most =
      std::max(kBandFloats / floats_per_row, (kBandPixels + shape.out_w() - 1) / shape.out_w());
  const std::int64_t bands = (rows + most - 1) / most;
  for (std::int64_t i = 0; i < bands; ++i) {
    const std::int64_t first = rows * i / bands, last = rows * (i + 1) / bands;
    use(Band{.rows = {first, last - first},
             .pixels = static_cast<int>(last - first) * shape.out_w(),
             .first_pixel = first * shape.out_w()});
  }
}

// Scratch for the lowered matrix of the largest band.
float* column_scratch(const ConvShape& shape, DeviceContext& context) {
  int pixels = 0;
  for_each_band(shape, [&](const Band& band) { pixels = std::max(pixels, band.pixels); });
  return lowers_to_itself(shape) ? nullptr
                                 : context.scratch(static_cast<std::size_t>(pixels) *
                                                   static_cast<std::size_t>(shape.taps()));
}

// The lowered matrix of a band and group, made in `scratch` unless src already is it.
MatrixView lowered(const ConvShape& shape, int group, const Band& band, const float* src,
                   float* scratch) {
  if (lowers_to_itself(shape))
    return {src + band.first_pixel * shape.c + group * shape.group_c(), shape.c};
  im2col(shape, group, band.rows, src, scratch);
  return {scratch, shape.taps()};
}

// Where the weights of a group begin.
std::int64_t group_weights(const ConvShape& shape, int group) {
  return std::int64_t{group} * shape.group_filters() * shape.taps();
}

template <Gemm product>
void forward_lowering(const ConvForwardArgs& args, const Buffers& buffers, DeviceContext& context) {
  const ConvShape& s = args.shape;
  const float *src = buffers.get(0), *weights = buffers.get(1);
  const float* bias = args.has_bias ? buffers.get(3) : nullptr;
  float* const dst = buffers.get(2);
  float* const scratch = column_scratch(s, context);
  for_each_band(s, [&](const Band& band) {
    float* band_dst = dst + band.first_pixel * s.filters;
    for (int group = 0; group < s.groups; ++group)
      product(band.pixels, s.group_filters(), s.taps(), lowered(s, group, band, src, scratch),
              {weights + group_weights(s, group), s.taps(), true}, 0.0f,
              band_dst + group * s.group_filters(), s.filters);
    add_bias_and_activate(band.pixels, s.filters, bias, args.activation, band_dst);
  });
}

template <Gemm product>
void backward_weights_lowering(const ConvWeightsArgs& args, const Buffers& buffers,
                               DeviceContext& context) {
  const ConvShape& s = args.shape;
  const float *src = buffers.get(0), *diff_dst = buffers.get(1);
  float* const diff_weights = buffers.get(2);
  float* const scratch = column_scratch(s, context);
  for_each_band(s, [&](const Band& band) {
    const float* band_diff = diff_dst + band.first_pixel * s.filters;
    for (int group = 0; group < s.groups; ++group)
      product(s.group_filters(), s.taps(), band.pixels,
              {band_diff + group * s.group_filters(), s.filters, true},
              lowered(s, group, band, src, scratch), 1.0f, diff_weights + group_weights(s, group),
              s.taps());
    if (args.has_bias) add_column_sums(band.pixels, s.filters, band_diff, buffers.get(3));
  });
}

template <Gemm product>
void backward_data_lowering(const ConvDataArgs& args, const Buffers& buffers,
                            DeviceContext& context) {
  const ConvShape& s = args.shape;
  const float *diff_dst = buffers.get(0), *weights = buffers.get(1);
  float* const diff_src = buffers.get(2);
  float* const scratch = column_scratch(s, context);
  const bool direct = lowers_to_itself(s);
  if (!direct && !args.adds) std::fill_n(diff_src, s.src_count(), 0.0f);
  for_each_band(s, [&](const Band& band) {
    for (int group = 0; group < s.groups; ++group) {
      float* columns = direct ? diff_src + band.first_pixel * s.c + group * s.group_c() : scratch;
      product(band.pixels, s.taps(), s.group_filters(),
              {diff_dst + band.first_pixel * s.filters + group * s.group_filters(), s.filters},
              {weights + group_weights(s, group), s.taps()}, direct && args.adds ? 1.0f : 0.0f,
              columns, direct ? s.c : s.taps());
      if (!direct) col2im(s, group, band.rows, scratch, diff_src);
    }
  });
}

// Below four channels or filters per group, packing the matrices costs more than multiplying them.
template <class Args>
bool worth_lowering(const Args& args) {
  const ConvShape& s = args.shape;
  return s.groups == 1 || (s.group_c() >= 4 && s.group_filters() >= 4);
}

// ---- Winograd ----

#ifdef OMNI_ONEDNN
constexpr Gemm kProduct = onednn::gemm;
#else
constexpr Gemm kProduct = gemm;
#endif

template <class Args>
bool suits_winograd(const Args& args) {
  return winograd::supports(args.shape);
}

void forward_winograd(const ConvForwardArgs& args, const Buffers& buffers, DeviceContext& context) {
  winograd::forward(args.shape, kProduct, buffers.get(0), buffers.get(1),
                    args.has_bias ? buffers.get(3) : nullptr, args.activation, buffers.get(2),
                    context);
}

void backward_weights_winograd(const ConvWeightsArgs& args, const Buffers& buffers,
                               DeviceContext& context) {
  const ConvShape& s = args.shape;
  winograd::backward_weights(s, kProduct, buffers.get(0), buffers.get(1), buffers.get(2), context);
  if (args.has_bias) add_column_sums(s.pixels(), s.filters, buffers.get(1), buffers.get(3));
}

void backward_data_winograd(const ConvDataArgs& args, const Buffers& buffers,
                            DeviceContext& context) {
  winograd::backward_data(args.shape, kProduct, buffers.get(0), buffers.get(1), args.adds,
                          buffers.get(2), context);
}

// ---- reference ----

void forward_reference(const ConvForwardArgs& args, const Buffers& buffers, DeviceContext&) {
  reference::conv_forward(args, buffers.get(0), buffers.get(1),
                          args.has_bias ? buffers.get(3) : nullptr, buffers.get(2));
}

void backward_weights_reference(const ConvWeightsArgs& args, const Buffers& buffers,
                                DeviceContext&) {
  reference::conv_backward_weights(args, buffers.get(0), buffers.get(1), buffers.get(2),
                                   args.has_bias ? buffers.get(3) : nullptr);
}

void backward_data_reference(const ConvDataArgs& args, const Buffers& buffers, DeviceContext&) {
  reference::conv_backward_data(args, buffers.get(0), buffers.get(1), buffers.get(2));
}

// ---- cost and footprint ----

// The three passes multiply the same pairs and touch tensors of the same sizes.
template <class Args>
Cost convolution_cost(const Args& args) {
  const ConvShape& s = args.shape;
  return {.flops = 2.0 * static_cast<double>(s.dst_count()) * s.taps(),
          .bytes = 4.0 * static_cast<double>(s.src_count() + s.weights_count() + s.dst_count())};
}

template <class... More>
std::uint64_t convolution_footprint(const ConvShape& s, More... more) {
  return footprint_of(s.n, s.h, s.w, s.c, s.filters, s.kernel_h, s.kernel_w, s.stride_h, s.stride_w,
                      s.pad_h, s.pad_w, s.dilation_h, s.dilation_w, s.groups, more...);
}

std::uint64_t forward_footprint(const ConvForwardArgs& args) {
  return convolution_footprint(args.shape, args.activation, args.has_bias);
}

std::uint64_t weights_footprint(const ConvWeightsArgs& args) {
  return convolution_footprint(args.shape, args.has_bias);
}

std::uint64_t data_footprint(const ConvDataArgs& args) {
  return convolution_footprint(args.shape, args.adds);
}

}  // namespace

Codelet<ConvForwardArgs> conv_forward({
    .name = "conv_forward",
    .color = 0x1f77b4,
    .implementations =
        {
#ifdef OMNI_ONEDNN
            {"onednn", conv_forward_onednn},
            {"lowering_onednn", forward_lowering<onednn::gemm>, worth_lowering},
#endif
            {"lowering", forward_lowering<gemm>, worth_lowering},
            {"winograd", forward_winograd, suits_winograd},
            {"reference", forward_reference, nullptr, Role::reference},
            OMNI_GPU_IMPLEMENTATION(gpu::conv_forward)},
    .cost = convolution_cost<ConvForwardArgs>,
    .footprint = forward_footprint,
});

Codelet<ConvWeightsArgs> conv_backward_weights({
    .name = "conv_backward_weights",
    .color = 0xd62728,
    .implementations =
        {
#ifdef OMNI_ONEDNN
            {"onednn", conv_backward_weights_onednn},
            {"lowering_onednn", backward_weights_lowering<onednn::gemm>, worth_lowering},
#endif
            {"lowering", backward_weights_lowering<gemm>, worth_lowering},
            {"winograd", backward_weights_winograd, suits_winograd},
            {"reference", backward_weights_reference, nullptr, Role::reference},
            OMNI_GPU_IMPLEMENTATION(gpu::conv_backward_weights)},
    .cost = convolution_cost<ConvWeightsArgs>,
    .footprint = weights_footprint,
});

Codelet<ConvDataArgs> conv_backward_data({
    .name = "conv_backward_data",
    .color = 0xff7f0e,
    .implementations =
        {
#ifdef OMNI_ONEDNN
            {"onednn", conv_backward_data_onednn},
            {"lowering_onednn", backward_data_lowering<onednn::gemm>, worth_lowering},
#endif
            {"lowering", backward_data_lowering<gemm>, worth_lowering},
            {"winograd", backward_data_winograd, suits_winograd},
            {"reference", backward_data_reference, nullptr, Role::reference},
            OMNI_GPU_IMPLEMENTATION(gpu::conv_backward_data)},
    .cost = convolution_cost<ConvDataArgs>,
    .footprint = data_footprint,
});

void submit_conv_forward(ConvForwardArgs args, const Tensor& src, const Tensor& weights,
                         const Tensor* bias, const Tensor& dst, TaskTag tag) {
  args.has_bias = bias != nullptr;
  if (bias != nullptr)
    conv_forward.submit(args, {read(src), read(weights), write(dst), read(*bias)}, tag);
  else
    conv_forward.submit(args, {read(src), read(weights), write(dst)}, tag);
}

void submit_conv_backward_weights(ConvWeightsArgs args, const Tensor& src, const Tensor& diff_dst,
                                  const Tensor& diff_weights, const Tensor* diff_bias,
                                  TaskTag tag) {
  args.has_bias = diff_bias != nullptr;
  if (diff_bias != nullptr)
    conv_backward_weights.submit(
        args, {read(src), read(diff_dst), accumulate(diff_weights), accumulate(*diff_bias)}, tag);
  else
    conv_backward_weights.submit(args, {read(src), read(diff_dst), accumulate(diff_weights)}, tag);
}

void submit_conv_backward_data(const ConvDataArgs& args, const Tensor& diff_dst,
                               const Tensor& weights, const Tensor& diff_src, TaskTag tag) {
  conv_backward_data.submit(
      args, {read(diff_dst), read(weights), args.adds ? accumulate(diff_src) : write(diff_src)},
      tag);
}

}  // namespace omni
