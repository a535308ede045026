// This file pools on a GPU. Each thread computes one result. In forward it reads the result's
// window, in backward all windows over the result, always in the same order.
#include "codelets/spatial/pooling.hpp"

#include "codelets/cuda/map.cuh"
#include "codelets/cuda/rows.cuh"
#include "runtime/extent.hpp"

namespace omni {
namespace {

// The following code finds which cells are under which windows, and where their values are.

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
  // Within an image 32 bits suffice to number the values (Extent).
  __device__ std::int64_t in_src(int image, int y, int x, int k) const {
    return std::int64_t{image} * (shape.h * shape.w * shape.c) + (y * shape.w + x) * shape.c + k;
  }
  __device__ std::int64_t in_dst(int image, int y, int x, int k) const {
    return std::int64_t{image} * (shape.out_h * shape.out_w * shape.c) +
           (y * shape.out_w + x) * shape.c + k;
  }
  // Calls visit(y and x of a window, its rows, its columns) for all windows over a cell.
  __device__ void for_each_window_over(int y, int x, auto visit) const {
    const PoolCover over_y(y, shape.stride_h, shape.offset_h, shape.kernel_h, shape.out_h);
    const PoolCover over_x(x, shape.stride_w, shape.offset_w, shape.kernel_w, shape.out_w);
    for (int out_y = over_y.first; out_y < over_y.last; ++out_y)
      for (int out_x = over_x.first; out_x < over_x.last; ++out_x)
        visit(out_y, out_x, rows(out_y), columns(out_x));
  }
};

// The following code is max pooling with windows known at compile time. It has no divisions by
// strides and no loops, and many loads are under way at the same time.

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
        // A cell outside the image is replaced by its neighbour inside, which is compared a second
        // time and does not win.
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

// In FixedMaxBackward a thread has a patch of stride * stride cells. The last window over the patch
// starts where the patch starts.
template <int kernel, int stride, int lanes, class T>
struct FixedMaxBackward {
  static_assert(kernel >= stride && kernel * kernel < kNoCell<std::uint8_t>);
  static constexpr int kWindows =
      (kernel + stride - 1) / stride;  // windows over a patch, per dimension

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
      // If a window does not exist, its neighbour is loaded instead, because loads behind branches
      // would wait for each other.
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

// The following code pools with any windows.

template <int lanes, class T, class Index>
struct MaxForward {
  Pool pool;
  const T* src;
  T* dst;
  Index* index;

  __device__ void operator()(int image, int y, int x, int column) const {
    const int k = column * lanes;
    const PoolSpan rows = pool.rows(y), columns = pool.columns(x);
    Lanes<lanes> best{};
    auto winner = Cells<lanes, Index>::none();
    for (int row = rows.first; row < rows.last; ++row)
      for (int in_row = columns.first; in_row < columns.last; ++in_row) {
        const Lanes<lanes> value = load<lanes>(src, pool.in_src(image, row, in_row, k));
        const int cell = (row - rows.start) * pool.shape.kernel_w + in_row - columns.start;
        for (int i = 0; i < lanes; ++i)
          if (winner.at[i] == kNoCell<Index> || value.at[i] > best.at[i]) {
            best.at[i] = value.at[i];
            winner.at[i] = static_cast<Index>(cell);
          }
      }
    for (int i = 0; i < lanes && pool.shape.after_relu; ++i)
      if (!(best.at[i] > 0)) winner.at[i] = kNoCell<Index>;
    const std::int64_t at = pool.in_dst(image, y, x, k);
    store(dst, at, best);
    winner.store(index, at);
  }
};

template <int lanes, class T, class Index>
struct MaxBackward {
  Pool pool;
  const T* diff_dst;
  const Index* index;
  T* diff_src;

  Extent positions() const { return {pool.shape.h, pool.shape.w, pool.shape.c / lanes}; }
  __device__ void operator()(int image, int y, int x, int column) const {
    const int k = column * lanes;
    Lanes<lanes> sum{};
    pool.for_each_window_over(y, x, [&](int out_y, int out_x, PoolSpan rows, PoolSpan columns) {
      const std::int64_t at = pool.in_dst(image, out_y, out_x, k);
      const int cell = (y - rows.start) * pool.shape.kernel_w + x - columns.start;
      const auto winner = Cells<lanes, Index>::load(index, at);
      const Lanes<lanes> diff = load<lanes>(diff_dst, at);
      for (int i = 0; i < lanes; ++i)
        if (winner.at[i] == cell) sum.at[i] += diff.at[i];
    });
    store(diff_src, pool.in_src(image, y, x, k), sum);
  }
};

__device__ float share_of(const PoolShape& shape, PoolSpan rows, PoolSpan columns) {
  return 1.0f / static_cast<float>(averaged_cells(shape, rows, columns));
}

template <int lanes, class T>
struct AverageForward {
  Pool pool;
  const T* src;
  T* dst;

  __device__ void operator()(int image, int y, int x, int column) const {
    const int k = column * lanes;
    const PoolSpan rows = pool.rows(y), columns = pool.columns(x);
    Lanes<lanes> sum{};
    for (int row = rows.first; row < rows.last; ++row)
#pragma unroll 4
      for (int in_row = columns.first; in_row < columns.last; ++in_row) {
        const Lanes<lanes> value = load<lanes>(src, pool.in_src(image, row, in_row, k));
        for (int i = 0; i < lanes; ++i) sum.at[i] += value.at[i];
      }
    for (int i = 0; i < lanes; ++i) sum.at[i] *= share_of(pool.shape, rows, columns);
    store(dst, pool.in_dst(image, y, x, k), sum);
  }
};

template <int lanes, class T>
struct AverageBackward {
  Pool pool;
  const T* diff_dst;
  T* diff_src;

  __device__ void operator()(int image, int y, int x, int column) const {
    const int k = column * lanes;
    Lanes<lanes> sum{};
    pool.for_each_window_over(y, x, [&](int out_y, int out_x, PoolSpan rows, PoolSpan columns) {
      const Lanes<lanes> diff = load<lanes>(diff_dst, pool.in_dst(image, out_y, out_x, k));
      for (int i = 0; i < lanes; ++i) sum.at[i] += diff.at[i] * share_of(pool.shape, rows, columns);
    });
    store(diff_src, pool.in_src(image, y, x, k), sum);
  }
};

template <class PoolIndex>
struct AnyWindow {
  using Index = PoolIndex;
  template <int lanes, class T>
  using Forward = MaxForward<lanes, T, Index>;
  template <int lanes, class T>
  using Backward = MaxBackward<lanes, T, Index>;
};

template <class Use>  // calls use(FixedWindow) for usual windows, else use(AnyWindow)
void with_window(const PoolShape& shape, Use use) {
  if (FixedWindow<2, 2>::is_of(shape)) return use(FixedWindow<2, 2>());
  if (FixedWindow<3, 2>::is_of(shape)) return use(FixedWindow<3, 2>());
  with_pool_index(shape, [&]<class Index>(Index) { use(AnyWindow<Index>()); });
}

}  // namespace

void gpu::max_pool_forward(const PoolShape& shape, const Buffers& buffers, DeviceContext&) {
  const auto forward = [&]<class T, class Window>(T, Window) {
    const T* src = buffers.get<T>(0);
    T* dst = buffers.get<T>(1);
    auto* index = buffers.get<typename Window::Index>(2);
    with_lanes<T>(divides(kMostLanes<T>, shape.c, src, dst, index), [&]<class N>(N lanes) {
      const Extent results{shape.out_h, shape.out_w, shape.c / lanes};
      for_each_position(
          CudaWorker::current(), shape.n, results,
          typename Window::template Forward<N::value, T>{Pool{shape}, src, dst, index});
    });
  };
  with_window(shape, [&](auto w) { with_values(buffers, [&](auto t) { forward(t, w); }); });
}

void gpu::max_pool_backward(const PoolShape& shape, const Buffers& buffers, DeviceContext&) {
  const auto backward = [&]<class T, class Window>(T, Window) {
    const T* diff_dst = buffers.get<T>(0);
    const auto* index = buffers.get<typename Window::Index>(1);
    T* diff_src = buffers.get<T>(2);
    with_lanes<T>(divides(kMostLanes<T>, shape.c, diff_dst, index, diff_src), [&]<class N>(N) {
      const typename Window::template Backward<N::value, T> kernel{Pool{shape}, diff_dst, index,
                                                                   diff_src};
      for_each_position(CudaWorker::current(), shape.n, kernel.positions(), kernel);
    });
  };
  with_window(shape, [&](auto w) { with_values(buffers, [&](auto t) { backward(t, w); }); });
}

void gpu::average_pool_forward(const PoolShape& shape, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* src = buffers.get<T>(0);
    T* dst = buffers.get<T>(1);
    with_lanes<T>(divides(kMostLanes<T>, shape.c, src, dst), [&]<class N>(N lanes) {
      const Extent results{shape.out_h, shape.out_w, shape.c / lanes};
      for_each_position(CudaWorker::current(), shape.n, results,
                        AverageForward<N::value, T>{Pool{shape}, src, dst});
    });
  });
}

void gpu::average_pool_backward(const PoolShape& shape, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* diff_dst = buffers.get<T>(0);
    T* diff_src = buffers.get<T>(1);
    with_lanes<T>(divides(kMostLanes<T>, shape.c, diff_dst, diff_src), [&]<class N>(N lanes) {
      const Extent results{shape.h, shape.w, shape.c / lanes};
      for_each_position(CudaWorker::current(), shape.n, results,
                        AverageBackward<N::value, T>{Pool{shape}, diff_dst, diff_src});
    });
  });
}

}  // namespace omni
