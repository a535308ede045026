// Max and average pooling over windows that are clipped at the border of the image. Global pooling
// is the same with the image as kernel.
//
// Max: what lies outside the image counts as -infinity; of equal values the first wins (rows
// first). Average: divides by the number of cells inside the image (Caffe counts the padding too).
// A window that holds no cell of the image gives 0 and passes no gradient. Only a padding of more
// than kernel - 1 cells on one side makes such windows; layers refuse it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "runtime/tasks/kernel.hpp"

namespace omni {

// n images of h*w*c; the first window starts offset_h above and offset_w left of the image.
// Darknet: `padding` is the total of both sides, offset = padding / 2,
// out = (size + padding - kernel) / stride + 1.
struct PoolShape {
  int n = 0, h = 0, w = 0, c = 0;
  int kernel_h = 1, kernel_w = 1;
  int stride_h = 1, stride_w = 1;
  int offset_h = 0, offset_w = 0;
  int out_h = 0, out_w = 0;
  // Max: src is the output of a relu, whose gradient backward is to include. Where the largest
  // value is not positive, no cell wins.
  bool after_relu = false;
};

// Max pooling remembers for each output which cell of its window won, row * kernel_w + column, in
// a u8 tensor of pool_index_bytes(): a byte each, two in windows that have more cells.
template <class Index>
inline constexpr Index kNoCell = std::numeric_limits<Index>::max();

template <class Use>  // use(a value of the index's type)
decltype(auto) with_pool_index(const PoolShape& shape, Use use) {
  if (shape.kernel_h * shape.kernel_w <= kNoCell<std::uint8_t>) return use(std::uint8_t{});
  return use(std::uint16_t{});
}

inline std::size_t pool_index_bytes(const PoolShape& shape) {
  return with_pool_index(shape, [](auto index) { return sizeof index; }) *
         static_cast<std::size_t>(shape.n) * shape.out_h * shape.out_w * shape.c;
}

// The cells [first, last) of the image under window number `out` along one dimension.
struct PoolSpan {
  int start;  // of the window: negative in the padding
  int first, last;
  constexpr PoolSpan(int out, int stride, int offset, int kernel, int size)
      : start(out * stride - offset),
        first(std::max(start, 0)),
        last(std::max(first, std::min(start + kernel, size))) {}
  constexpr int count() const { return last - first; }
};

// The other way: the windows [first, last) over cell `at` along one dimension.
struct PoolCover {
  int first, last;
  constexpr PoolCover(int at, int stride, int offset, int kernel, int out)
      : first(at + offset < kernel ? 0 : (at + offset - kernel) / stride + 1),
        last(at + offset < 0 ? 0 : std::min(out, (at + offset) / stride + 1)) {}
};

// Calls visit(image, index of the output pixel, rows, columns) for every window of the slice.
void for_each_window(const PoolShape& shape, auto visit) {
  std::int64_t pixel = 0;
  for (int image = 0; image < shape.n; ++image)
    for (int y = 0; y < shape.out_h; ++y)
      for (int x = 0; x < shape.out_w; ++x, ++pixel)
        visit(image, pixel, PoolSpan(y, shape.stride_h, shape.offset_h, shape.kernel_h, shape.h),
              PoolSpan(x, shape.stride_w, shape.offset_w, shape.kernel_w, shape.w));
}

namespace reference {

// Calls visit(index in the output, index in the image, cell of the window, cells of the window that
// are inside the image), the cells of a window in order.
void for_each_cell(const PoolShape& shape, auto visit) {
  for_each_window(shape, [&](int image, std::int64_t pixel, PoolSpan rows, PoolSpan columns) {
    for (int row = rows.first; row < rows.last; ++row)
      for (int column = columns.first; column < columns.last; ++column)
        for (int k = 0; k < shape.c; ++k)
          visit(pixel * shape.c + k,
                ((std::int64_t{image} * shape.h + row) * shape.w + column) * shape.c + k,
                (row - rows.start) * shape.kernel_w + column - columns.start,
                rows.count() * columns.count());
  });
}

template <class T, class Index>
void max_pool_forward(const PoolShape& shape, const T* src, T* dst, Index* index) {
  const std::int64_t outputs = std::int64_t{shape.n} * shape.out_h * shape.out_w * shape.c;
  std::fill_n(dst, outputs, T{0});
  std::fill_n(index, outputs, kNoCell<Index>);
  for_each_cell(shape, [&](std::int64_t out, std::int64_t in, int cell, int) {
    if (index[out] != kNoCell<Index> && !(src[in] > dst[out])) return;
    dst[out] = src[in];
    index[out] = static_cast<Index>(cell);
  });
  for (std::int64_t out = 0; out < outputs && shape.after_relu; ++out)
    if (!(dst[out] > 0)) index[out] = kNoCell<Index>;
}

template <class T, class Index>
void max_pool_backward(const PoolShape& shape, const T* diff_dst, const Index* index, T* diff_src) {
  std::fill_n(diff_src, std::int64_t{shape.n} * shape.h * shape.w * shape.c, T{0});
  for_each_cell(shape, [&](std::int64_t out, std::int64_t in, int cell, int) {
    if (index[out] == cell) diff_src[in] += diff_dst[out];
  });
}

template <class T>
void average_pool_forward(const PoolShape& shape, const T* src, T* dst) {
  std::fill_n(dst, std::int64_t{shape.n} * shape.out_h * shape.out_w * shape.c, T{0});
  for_each_cell(shape, [&](std::int64_t out, std::int64_t in, int, int cells) {
    dst[out] += src[in] / static_cast<T>(cells);
  });
}

template <class T>
void average_pool_backward(const PoolShape& shape, const T* diff_dst, T* diff_src) {
  std::fill_n(diff_src, std::int64_t{shape.n} * shape.h * shape.w * shape.c, T{0});
  for_each_cell(shape, [&](std::int64_t out, std::int64_t in, int, int cells) {
    diff_src[in] += diff_dst[out] / static_cast<T>(cells);
  });
}

}  // namespace reference

OMNI_CODELET(PoolShape, max_pool_forward);       // {src R, dst W, index W}
OMNI_CODELET(PoolShape, max_pool_backward);      // {diff_dst R, index R, diff_src W}
OMNI_CODELET(PoolShape, average_pool_forward);   // {src R, dst W}
OMNI_CODELET(PoolShape, average_pool_backward);  // {diff_dst R, diff_src W}

}  // namespace omni
