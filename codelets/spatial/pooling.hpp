// Max and average pooling use windows that are clipped at the border of the image. For global
// pooling the kernel has the size of the image.
//
// In max pooling, cells outside of the image count as -infinity. Among equal values the first is
// taken, row by row. Average pooling divides by the number of cells inside the image. With
// counts_padding it divides by the number of cells including those in the padding, as Caffe does. A
// window without a cell of the image gives 0 and passes no gradient. Only a padding of more than
// kernel - 1 cells on one side makes such windows; layers refuse it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "runtime/tasks/kernel.hpp"

namespace omni {

// A PoolShape has n images of h*w*c. The first window starts offset_h above and offset_w left of
// the image. Darknet's `padding` is the sum of both sides, so offset = padding / 2 and out = (size
// + padding - kernel) / stride + 1.
struct PoolShape {
  int n = 0, h = 0, w = 0, c = 0;
  int kernel_h = 1, kernel_w = 1;
  int stride_h = 1, stride_w = 1;
  int offset_h = 0, offset_w = 0;
  int out_h = 0, out_w = 0;
  // True, for max pooling: src is the output of a relu, and backward includes the relu's gradient.
  // So no cell of a window wins if the window's largest value is not positive.
  bool after_relu = false;
  // True, for average pooling: cells in the padding count. The padding is `offset` cells on every
  // side; a window may extend beyond it.
  bool counts_padding = false;
};

// For each output, max pooling stores which cell of the window won, as row * kernel_w + column. The
// indices are in a u8 tensor of pool_index_bytes(): one byte each, or two if windows have too many
// cells.
template <class Index>
inline constexpr Index kNoCell = std::numeric_limits<Index>::max();

// Calls use(0), where 0 has the type of the indices.
template <class Use>
decltype(auto) with_pool_index(const PoolShape& shape, Use use) {
  if (shape.kernel_h * shape.kernel_w <= kNoCell<std::uint8_t>) return use(std::uint8_t{});
  return use(std::uint16_t{});
}

inline std::size_t pool_index_bytes(const PoolShape& shape) {
  return with_pool_index(shape, [](auto index) { return sizeof index; }) *
         static_cast<std::size_t>(shape.n) * shape.out_h * shape.out_w * shape.c;
}

// A PoolSpan has the cells [first, last) of the image under a window, along one dimension.
struct PoolSpan {
  int start;  // where the window starts; negative in the padding
  int first, last;
  int padded_end;  // where the window ends, but at most the end of the padding
  constexpr PoolSpan(int out, int stride, int offset, int kernel, int size)
      : start(out * stride - offset),
        first(std::max(start, 0)),
        last(std::max(first, std::min(start + kernel, size))),
        padded_end(std::min(start + kernel, size + offset)) {}
  constexpr int count() const { return last - first; }
};

// Returns the number of cells by which a mean divides.
constexpr int averaged_cells(const PoolShape& shape, const PoolSpan& rows,
                             const PoolSpan& columns) {
  if (!shape.counts_padding) return std::max(1, rows.count() * columns.count());
  return std::max(1, (rows.padded_end - rows.start) * (columns.padded_end - columns.start));
}

// A PoolCover is the range of windows [first, last) over a cell of the image, along one dimension.
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

// Calls visit(index in dst, index in src, cell, cells) for all values. `cell` is the number of the
// cell in its window. `cells` is the number by which a mean of the window divides. The cells of a
// window come in order.
void for_each_cell(const PoolShape& shape, auto visit) {
  for_each_window(shape, [&](int image, std::int64_t pixel, PoolSpan rows, PoolSpan columns) {
    for (int row = rows.first; row < rows.last; ++row)
      for (int column = columns.first; column < columns.last; ++column)
        for (int k = 0; k < shape.c; ++k)
          visit(pixel * shape.c + k,
                ((std::int64_t{image} * shape.h + row) * shape.w + column) * shape.c + k,
                (row - rows.start) * shape.kernel_w + column - columns.start,
                averaged_cells(shape, rows, columns));
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
