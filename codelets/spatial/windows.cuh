// What all kernels of pooling know: which windows and cells lie over each other, and where their
// values are. And max pooling by windows that the compiler knows: nothing is divided by a stride,
// no loop is left, and many loads are on their way at once.
#pragma once

#include "codelets/cuda/map.cuh"
#include "codelets/spatial/pooling.hpp"
#include "runtime/extent.hpp"

namespace omni {

template <int lanes, class Index>
struct alignas(lanes * sizeof(Index)) Cells {
  Index at[lanes];

  __device__ static Cells none() {
    Cells cells;
    for (int i = 0; i < lanes; ++i) cells.at[i] = kNoCell<Index>;
    return cells;
  }
  __device__ static Cells load(const Index* from, std::int64_t first) {
    return *reinterpret_cast<const Cells*>(from + first);
  }
  __device__ void store(Index* to, std::int64_t first) const {
    *reinterpret_cast<Cells*>(to + first) = *this;
  }
};

struct Pool {
  PoolShape shape;

  __device__ PoolSpan rows(int y) const {
    return {y, shape.stride_h, shape.offset_h, shape.kernel_h, shape.h};
  }
  __device__ PoolSpan columns(int x) const {
    return {x, shape.stride_w, shape.offset_w, shape.kernel_w, shape.w};
  }
  // One image's values are countable (see Extent), so 32 bits do for what is inside.
  __device__ std::int64_t in_src(int image, int y, int x, int k) const {
    return std::int64_t{image} * (shape.h * shape.w * shape.c) + (y * shape.w + x) * shape.c + k;
  }
  __device__ std::int64_t in_dst(int image, int y, int x, int k) const {
    return std::int64_t{image} * (shape.out_h * shape.out_w * shape.c) +
           (y * shape.out_w + x) * shape.c + k;
  }
  // visit(y, x of a window, its rows, its columns) for all windows over a cell.
  __device__ void for_each_window_over(int y, int x, auto visit) const {
    const PoolCover over_y(y, shape.stride_h, shape.offset_h, shape.kernel_h, shape.out_h);
    const PoolCover over_x(x, shape.stride_w, shape.offset_w, shape.kernel_w, shape.out_w);
    for (int out_y = over_y.first; out_y < over_y.last; ++out_y)
      for (int out_x = over_x.first; out_x < over_x.last; ++out_x)
        visit(out_y, out_x, rows(out_y), columns(out_x));
  }
};

template <int kernel, int stride, int lanes, class T>
struct FixedMaxForward {
  Pool pool;
  const T* src;
  T* dst;
  std::uint8_t* index;

  __device__ void operator()(int image, int y, int x, int column) const {
    const PoolShape& shape = pool.shape;
    const int k = column * lanes;
    const PoolSpan rows(y, stride, shape.offset_h, kernel, shape.h);
    const PoolSpan columns(x, stride, shape.offset_w, kernel, shape.w);
    Lanes<lanes> best{};
    auto winner = Cells<lanes, std::uint8_t>::none();
    if (rows.count() > 0 && columns.count() > 0) {
#pragma unroll
      for (int i = 0; i < kernel * kernel; ++i) {
        // For a cell outside the image its neighbour inside is compared again, and does not win.
        const int row = std::clamp(rows.start + i / kernel, rows.first, rows.last - 1);
        const int in_row = std::clamp(columns.start + i % kernel, columns.first, columns.last - 1);
        const int cell = (row - rows.start) * kernel + in_row - columns.start;
        const Lanes<lanes> value = load<lanes>(src, pool.in_src(image, row, in_row, k));
        for (int lane = 0; lane < lanes; ++lane)
          if (i == 0 || value.at[lane] > best.at[lane]) {
            best.at[lane] = value.at[lane];
            winner.at[lane] = static_cast<std::uint8_t>(cell);
          }
      }
    }
    for (int lane = 0; lane < lanes && shape.after_relu; ++lane)
      if (!(best.at[lane] > 0)) winner.at[lane] = kNoCell<std::uint8_t>;
    const std::int64_t at = pool.in_dst(image, y, x, k);
    store(dst, at, best);
    winner.store(index, at);
  }
};

// A thread has a patch of stride * stride cells. The last window over it starts where it does.
template <int kernel, int stride, int lanes, class T>
struct FixedMaxBackward {
  static_assert(kernel >= stride && kernel * kernel < kNoCell<std::uint8_t>);
  static constexpr int kWindows = (kernel + stride - 1) / stride;  // over a patch, by dimension

  Pool pool;
  const T* diff_dst;
  const std::uint8_t* index;
  T* diff_src;

  Extent positions() const {
    const auto patches = [](int size, int offset) {
      return (offset + size - 1) / stride - offset / stride + 1;
    };
    return {patches(pool.shape.h, pool.shape.offset_h), patches(pool.shape.w, pool.shape.offset_w),
            pool.shape.c / lanes};
  }

  __device__ void operator()(int image, int patch_y, int patch_x, int column) const {
    const PoolShape& shape = pool.shape;
    const int k = column * lanes;
    const int last_y = patch_y + shape.offset_h / stride;
    const int last_x = patch_x + shape.offset_w / stride;
    Lanes<lanes> sum[stride][stride] = {};
#pragma unroll
    for (int window = kWindows * kWindows - 1; window >= 0; --window) {
      const int i = window / kWindows, j = window % kWindows;
      const int y = last_y - i, x = last_x - j;
      // If it does not, its neighbour is loaded: loads behind branches would wait for each other.
      const bool exists = 0 <= y && y < shape.out_h && 0 <= x && x < shape.out_w;
      const int first_cell = exists ? 0 : kNoCell<std::uint8_t> + 1;
      const std::int64_t at = pool.in_dst(image, std::clamp(y, 0, shape.out_h - 1),
                                          std::clamp(x, 0, shape.out_w - 1), k);
      const auto winner = Cells<lanes, std::uint8_t>::load(index, at);
      const Lanes<lanes> diff = load<lanes>(diff_dst, at);
#pragma unroll
      for (int row = i * stride; row < std::min(kernel, (i + 1) * stride); ++row)
#pragma unroll
        for (int in_row = j * stride; in_row < std::min(kernel, (j + 1) * stride); ++in_row)
          for (int lane = 0; lane < lanes; ++lane)
            if (winner.at[lane] == first_cell + row * kernel + in_row)
              sum[row % stride][in_row % stride].at[lane] += diff.at[lane];
    }
    const int top = last_y * stride - shape.offset_h, left = last_x * stride - shape.offset_w;
#pragma unroll
    for (int i = 0; i < stride; ++i)
#pragma unroll
      for (int j = 0; j < stride; ++j) {
        const int y = top + i, x = left + j;
        if (0 <= y && y < shape.h && 0 <= x && x < shape.w)
          store(diff_src, pool.in_src(image, y, x, k), sum[i][j]);
      }
  }
};

template <int kernel, int stride>
struct FixedWindow {
  using Index = std::uint8_t;
  template <int lanes, class T>
  using Forward = FixedMaxForward<kernel, stride, lanes, T>;
  template <int lanes, class T>
  using Backward = FixedMaxBackward<kernel, stride, lanes, T>;

  static bool is_of(const PoolShape& shape) {
    return shape.kernel_h == kernel && shape.kernel_w == kernel && shape.stride_h == stride &&
           shape.stride_w == stride && shape.offset_h >= 0 && shape.offset_w >= 0;
  }
};

}  // namespace omni
