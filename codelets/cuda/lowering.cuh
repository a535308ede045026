// This header has im2col and col2im on a GPU (codelets/convolution/lowering.hpp). A row of the
// lowered matrix is a patch, with the values of all groups, group by group. The matrix is made in
// pieces that stay in the second-level cache.
#pragma once

#include <algorithm>
#include <cstdint>

#include "codelets/convolution/convolution_shape.hpp"
#include "codelets/cuda/rows.cuh"

namespace omni::gpu {

// Patches are the patches at some locations of some images, image by image.
struct Patches {
  int first_image = 0, images = 0;
  int first_location = 0, locations = 0;

  std::int64_t count() const { return std::int64_t{images} * locations; }
};

constexpr int patch_values(const ConvShape& shape) { return shape.groups * shape.taps(); }

// Returns how many patches a lowered matrix may have. On large GPUs it then takes a third of the
// second-level cache.
inline std::int64_t most_patches(const CudaWorker& worker, const ConvShape& shape) {
  constexpr std::int64_t kFloatsPerMultiprocessor = 1 << 15;
  return std::max<std::int64_t>(
      1, worker.multiprocessors() * kFloatsPerMultiprocessor / patch_values(shape));
}

// The lowered matrix has values of type T, float or Bf16.
template <class T>
struct Im2Col {
  ConvShape shape;
  Patches patches;
  int out_w;
  const float* src;
  T* columns;

  struct Column {
    const Im2Col& all;
    int dy, dx, channel;  // the value's row and column, less stride * location; its channel
    T* columns;
    __device__ void operator()(std::int64_t patch) const {
      const ConvShape& s = all.shape;
      const auto number = static_cast<int>(patch);
      const int image = all.patches.first_image + number / all.patches.locations;
      const int location = all.patches.first_location + number % all.patches.locations;
      const int y = location / all.out_w * s.stride_h + dy;
      const int x = location % all.out_w * s.stride_w + dx;
      const bool inside = y >= 0 && y < s.h && x >= 0 && x < s.w;
      columns[patch * patch_values(s)] =
          inside ? all.src[((std::int64_t{image} * s.h + y) * s.w + x) * s.c + channel] : 0.0f;
    }
  };
  __device__ Column operator()(int column) const {
    const int group_c = shape.group_c(), group = column / shape.taps();
    const int tap = column % shape.taps() / group_c;
    return {*this, tap / shape.kernel_w * shape.dilation_h - shape.pad_h,
            tap % shape.kernel_w * shape.dilation_w - shape.pad_w,
            group * group_c + column % group_c, columns + column};
  }
};

template <class T>
void im2col(CudaWorker& worker, const ConvShape& shape, const Patches& patches, const float* src,
            T* columns) {
  for_each_column(worker, patches.count(), patch_values(shape),
                  Im2Col<T>{shape, patches, shape.out_w(), src, columns});
}

// Col2Im adds up the values in the patches that belong to each value of diff_src, always in the
// same order.
struct Col2Im {
  ConvShape shape;
  Patches patches;
  int out_h, out_w;
  bool adds;
  const float* columns;
  float* diff_src;

  struct Column {
    const Col2Im& all;
    int channel;
    std::int64_t group_start;  // where the channel's group begins in a patch
    __device__ void operator()(std::int64_t pixel) const {
      const ConvShape& s = all.shape;
      const std::int64_t line = pixel / s.w;
      const int x = static_cast<int>(pixel % s.w), y = static_cast<int>(line % s.h);
      const float* image_columns =
          all.columns + line / s.h * all.patches.locations * patch_values(s) + group_start;
      float sum = 0;
      for (int ky = 0; ky < s.kernel_h; ++ky) {
        const int from_top = y + s.pad_h - ky * s.dilation_h, out_y = from_top / s.stride_h;
        if (from_top < 0 || from_top % s.stride_h != 0 || out_y >= all.out_h) continue;
        for (int kx = 0; kx < s.kernel_w; ++kx) {
          const int from_left = x + s.pad_w - kx * s.dilation_w, out_x = from_left / s.stride_w;
          if (from_left < 0 || from_left % s.stride_w != 0 || out_x >= all.out_w) continue;
          const int location = out_y * all.out_w + out_x - all.patches.first_location;
          if (location < 0 || location >= all.patches.locations) continue;
          sum += image_columns[std::int64_t{location} * patch_values(s) +
                               (ky * s.kernel_w + kx) * s.group_c()];
        }
      }
      float& place = all.diff_src[pixel * s.c + channel];
      place = all.adds ? place + sum : sum;
    }
  };
  __device__ Column operator()(int channel) const {
    const int group_c = shape.group_c();
    return {*this, channel, std::int64_t{channel / group_c} * shape.taps() + channel % group_c};
  }
};

// Adds the patches to their images, or overwrites the images with the sums of the patches.
inline void col2im(CudaWorker& worker, const ConvShape& shape, const Patches& patches, bool adds,
                   const float* columns, float* diff_src) {
  const std::int64_t pixels = std::int64_t{shape.h} * shape.w;
  for_each_column(worker, patches.images * pixels, shape.c,
                  Col2Im{shape, patches, shape.out_h(), shape.out_w(), adds, columns,
                         diff_src + patches.first_image * pixels * shape.c});
}

}  // namespace omni::gpu
