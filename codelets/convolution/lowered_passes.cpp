#include "codelets/convolution/lowered_passes.hpp"

#include <algorithm>

#include "codelets/convolution/lowering.hpp"
#include "codelets/elementwise/channel_bias.hpp"

namespace omni::lowering {
namespace {

// A band's matrices should stay in the second-level cache, but the weights are packed anew for
// every band: below so many pixels that costs more than the cache gives.
constexpr std::int64_t kBandFloats = 1 << 18, kBandPixels = 192;

struct Band {
  RowBand rows;
  int pixels;
  std::int64_t first_pixel;
};

std::int64_t rows_per_band(const Method& method, const ConvShape& s) {
  if (method.band_rows > 0) return method.band_rows;
  const std::int64_t across = s.out_w();
  return std::max(kBandFloats / (across * (s.taps() + s.filters)),
                  (kBandPixels + across - 1) / across);
}

void for_each_band(const Method& method, const ConvShape& s, auto use) {
  const std::int64_t rows = std::int64_t{s.n} * s.out_h(), at_once = rows_per_band(method, s);
  const std::int64_t bands = (rows + at_once - 1) / at_once;
  for (std::int64_t i = 0; i < bands; ++i) {
    const std::int64_t first = rows * i / bands, last = rows * (i + 1) / bands;
    use(Band{.rows = {first, last - first},
             .pixels = static_cast<int>(last - first) * s.out_w(),
             .first_pixel = first * s.out_w()});
  }
}

// The lowered matrix of a band and group: src itself, or a copy in `columns`.
MatrixView lower(const ConvShape& s, const Band& band, int group, const float* src,
                 float* columns) {
  if (lowers_to_itself(s))
    return {src + band.first_pixel * s.c + std::int64_t{group} * s.group_c(), s.c};
  im2col(s, group, band.rows, src, columns);
  return {columns, s.taps()};
}

std::int64_t weights_of(const ConvShape& s, int group) {
  return std::int64_t{group} * s.group_filters() * s.taps();
}

}  // namespace

std::size_t scratch_floats(const Method& method, const ConvShape& shape) {
  if (lowers_to_itself(shape)) return 0;
  std::int64_t pixels = 0;
  for_each_band(method, shape,
                [&](const Band& band) { pixels = std::max<std::int64_t>(pixels, band.pixels); });
  return pixels * shape.taps();
}

void forward(const Method& method, const ConvShape& shape, const float* src, const float* weights,
             const float* bias, Activation activation, float* dst, DeviceContext& context) {
  float* const columns = context.scratch(scratch_floats(method, shape));
  const int count = shape.group_filters();
  for_each_band(method, shape, [&](const Band& band) {
    float* const band_dst = dst + band.first_pixel * shape.filters;
    for (int group = 0; group < shape.groups; ++group)
      method.product(band.pixels, count, shape.taps(), lower(shape, band, group, src, columns),
                     {weights + weights_of(shape, group), shape.taps(), true}, 0.0f,
                     band_dst + group * count, shape.filters);
    add_bias_and_activate(band.pixels, shape.filters, bias, activation, band_dst);
  });
}

void backward_weights(const Method& method, const ConvShape& shape, const float* src,
                      const float* diff_dst, float* diff_weights, float* diff_bias,
                      DeviceContext& context) {
  float* const columns = context.scratch(scratch_floats(method, shape));
  const int count = shape.group_filters();
  for_each_band(method, shape, [&](const Band& band) {
    const float* const band_diff = diff_dst + band.first_pixel * shape.filters;
    for (int group = 0; group < shape.groups; ++group)
      method.product(count, shape.taps(), band.pixels,
                     {band_diff + group * count, shape.filters, true},
                     lower(shape, band, group, src, columns), 1.0f,
                     diff_weights + weights_of(shape, group), shape.taps());
    if (diff_bias != nullptr) add_column_sums(band.pixels, shape.filters, band_diff, diff_bias);
  });
}

void backward_data(const Method& method, const ConvShape& shape, const float* diff_dst,
                   const float* weights, bool adds, float* diff_src, DeviceContext& context) {
  float* const columns = context.scratch(scratch_floats(method, shape));
  const bool in_place = lowers_to_itself(shape);
  if (!adds && !in_place) std::fill_n(diff_src, shape.src_count(), 0.0f);
  for_each_band(method, shape, [&](const Band& band) {
    for (int group = 0; group < shape.groups; ++group) {
      float* const own = diff_src + band.first_pixel * shape.c + group * shape.group_c();
      method.product(band.pixels, shape.taps(), shape.group_filters(),
                     {diff_dst + band.first_pixel * shape.filters + group * shape.group_filters(),
                      shape.filters},
                     {weights + weights_of(shape, group), shape.taps()},
                     in_place && adds ? 1.0f : 0.0f, in_place ? own : columns,
                     in_place ? shape.c : shape.taps());
      if (!in_place) col2im(shape, group, band.rows, columns, diff_src);
    }
  });
}

}  // namespace omni::lowering
