// Pooling on a GPU: every result gathers, forward from its window, backward from the windows over
// it, in an order that never changes.
#include "codelets/spatial/pooling.hpp"

#include "codelets/cuda/images.cuh"
#include "codelets/spatial/windows.cuh"

namespace omni {
namespace {

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

__device__ float share_of(PoolSpan rows, PoolSpan columns) {
  return 1.0f / static_cast<float>(std::max(1, rows.count() * columns.count()));
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
    for (int i = 0; i < lanes; ++i) sum.at[i] *= share_of(rows, columns);
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
      for (int i = 0; i < lanes; ++i) sum.at[i] += diff.at[i] * share_of(rows, columns);
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

template <class Use>  // use(a FixedWindow of those that are common in nets, or AnyWindow)
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
