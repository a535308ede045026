#include "codelets/convolution/lowering.hpp"

#include <algorithm>

namespace omni {
namespace {

// The part [first, last) of a kernel's taps that lies inside the image, when tap 0 is at `start`.
struct TapRange {
  int first, last;
  TapRange(int start, int extent, int taps, int dilation)
      : first(start >= 0 ? 0 : std::min(taps, (-start + dilation - 1) / dilation)),
        last(std::clamp((extent - start + dilation - 1) / dilation, first, taps)) {}
};

// Walks the lowered matrix of a band in order. inside(offset in src, values) for runs that are
// contiguous in src, outside(values) for runs of padding.
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

bool lowers_to_itself(const ConvShape& shape) {
  return shape.kernel_h == 1 && shape.kernel_w == 1 && shape.stride_h == 1 && shape.stride_w == 1 &&
         shape.pad_h == 0 && shape.pad_w == 0;
}

}  // namespace omni
