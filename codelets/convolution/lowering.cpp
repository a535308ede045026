#include "codelets/convolution/lowering.hpp"

#include <algorithm>

#include "codelets/elementwise/channel_bias.hpp"

namespace omni {
namespace {

// A TapRange has the taps [first, last) of a kernel that lie inside the image, if tap 0 lies at
// `start`.
struct TapRange {
  int first, last;
  TapRange(int start, int extent, int taps, int dilation)
      : first(start >= 0 ? 0 : std::min(taps, (-start + dilation - 1) / dilation)),
        last(std::clamp((extent - start + dilation - 1) / dilation, first, taps)) {}
};

// Visits the lowered matrix of a band in order. Calls inside(offset in src, values) for values that
// are contiguous in src, and outside(values) for padding.
void for_each_run(const ConvShape& s, int group, RowBand band, auto inside, auto outside) {
  const int out_h = s.out_h(), out_w = s.out_w(), group_c = s.group_c();
  const bool dense = s.groups == 1 && s.dilation_w == 1;
  for (std::int64_t row = band.first; row < band.first + band.count; ++row) {
    const std::int64_t image = row / out_h;
    const int top = static_cast<int>(row % out_h) * s.stride_h - s.pad_h;
    for (int x = 0; x < out_w; ++x) {
      const int left = x * s.stride_w - s.pad_w;
      const TapRange across(left, s.w, s.kernel_w, s.dilation_w);
      for (int ky = 0; ky < s.kernel_h; ++ky) {
        const int src_y = top + ky * s.dilation_h;
        if (src_y < 0 || src_y >= s.h) {
          outside(s.kernel_w * group_c);
          continue;
        }
        const std::int64_t line = (image * s.h + src_y) * s.w;
        const auto offset = [&](int kx) {
          return (line + left + kx * s.dilation_w) * s.c + group * group_c;
        };
        if (across.first > 0) outside(across.first * group_c);
        if (dense) {
          if (across.last > across.first)
            inside(offset(across.first), (across.last - across.first) * group_c);
        } else {
          for (int kx = across.first; kx < across.last; ++kx) inside(offset(kx), group_c);
        }
        if (across.last < s.kernel_w) outside((s.kernel_w - across.last) * group_c);
      }
    }
  }
}

}  // namespace

void im2col(const ConvShape& shape, int group, RowBand band, const float* src, float* columns) {
  for_each_run(
      shape, group, band,
      [&](std::int64_t offset, int count) { columns = std::copy_n(src + offset, count, columns); },
      [&](int count) { columns = std::fill_n(columns, count, 0.0f); });
}

void col2im(const ConvShape& shape, int group, RowBand band, const float* columns,
            float* diff_src) {
  for_each_run(
      shape, group, band,
      [&](std::int64_t offset, int count) {
        float* __restrict sum = diff_src + offset;
        const float* __restrict addend = columns;
        for (int i = 0; i < count; ++i) sum[i] += addend[i];
        columns += count;
      },
      [&](int count) { columns += count; });
}

namespace lowering {
namespace {

// Returns whether src has the same values in the same order as its lowered matrix.
bool lowers_to_itself(const ConvShape& shape) {
  return shape.kernel_h == 1 && shape.kernel_w == 1 && shape.stride_h == 1 && shape.stride_w == 1 &&
         shape.pad_h == 0 && shape.pad_w == 0;
}

// The matrices of a band should stay in the second-level cache, which holds kBandFloats floats of
// them. But weights are packed again for every band. With fewer than kBandPixels pixels that takes
// longer than the cache saves.
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

// Returns the lowered matrix of a band and a group: src itself, or a copy in `columns`.
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

void run(const Method& method, const ConvForwardArgs& args, const Buffers& buffers,
         DeviceContext& context) {
  const ConvShape& shape = args.shape;
  const float *const src = buffers.get(0), *const weights = buffers.get(1);
  float* const columns = context.scratch(scratch_floats(method, shape));
  const int count = shape.group_filters();
  for_each_band(method, shape, [&](const Band& band) {
    float* const band_dst = buffers.get(2) + band.first_pixel * shape.filters;
    for (int group = 0; group < shape.groups; ++group)
      method.product(band.pixels, count, shape.taps(), lower(shape, band, group, src, columns),
                     {weights + weights_of(shape, group), shape.taps(), true}, 0.0f,
                     band_dst + group * count, shape.filters);
    add_bias_and_activate(band.pixels, shape.filters, args.has_bias ? buffers.get(3) : nullptr,
                          args.activation, band_dst);
  });
}

void run(const Method& method, const ConvWeightsArgs& args, const Buffers& buffers,
         DeviceContext& context) {
  const ConvShape& shape = args.shape;
  const float *const src = buffers.get(0), *const diff_dst = buffers.get(1);
  float* const columns = context.scratch(scratch_floats(method, shape));
  const int count = shape.group_filters();
  for_each_band(method, shape, [&](const Band& band) {
    const float* const band_diff = diff_dst + band.first_pixel * shape.filters;
    for (int group = 0; group < shape.groups; ++group)
      method.product(count, shape.taps(), band.pixels,
                     {band_diff + group * count, shape.filters, true},
                     lower(shape, band, group, src, columns), 1.0f,
                     buffers.get(2) + weights_of(shape, group), shape.taps());
    if (args.has_bias) add_column_sums(band.pixels, shape.filters, band_diff, buffers.get(3));
  });
}

void run(const Method& method, const ConvDataArgs& args, const Buffers& buffers,
         DeviceContext& context) {
  const ConvShape& shape = args.shape;
  const float *const diff_dst = buffers.get(0), *const weights = buffers.get(1);
  float *const diff_src = buffers.get(2), *const columns =
                                              context.scratch(scratch_floats(method, shape));
  const bool in_place = lowers_to_itself(shape);
  if (!args.adds && !in_place) std::fill_n(diff_src, shape.src_count(), 0.0f);
  for_each_band(method, shape, [&](const Band& band) {
    for (int group = 0; group < shape.groups; ++group) {
      float* const own = diff_src + band.first_pixel * shape.c + group * shape.group_c();
      method.product(band.pixels, shape.taps(), shape.group_filters(),
                     {diff_dst + band.first_pixel * shape.filters + group * shape.group_filters(),
                      shape.filters},
                     {weights + weights_of(shape, group), shape.taps()},
                     in_place && args.adds ? 1.0f : 0.0f, in_place ? own : columns,
                     in_place ? shape.c : shape.taps());
      if (!in_place) col2im(shape, group, band.rows, columns, diff_src);
    }
  });
}

}  // namespace lowering
}  // namespace omni
