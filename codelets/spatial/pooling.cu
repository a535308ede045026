// Pooling on a GPU: every result gathers, forward from its window, backward from the windows over
// it, in an order that never changes.
#include "codelets/spatial/pooling.hpp"

#include "codelets/cuda/images.cuh"
#include "codelets/cuda/map.cuh"

namespace omni {
namespace {

template <int lanes, class Index>
struct alignas(lanes * sizeof(Index)) Cells {
  Index at[lanes];
};

struct Pool {
  PoolShape shape;

  __device__ PoolSpan rows(int y) const {
    return {y, shape.stride_h, shape.offset_h, shape.kernel_h, shape.h};
  }
  __device__ PoolSpan columns(int x) const {
    return {x, shape.stride_w, shape.offset_w, shape.kernel_w, shape.w};
  }
  __device__ std::int64_t in_src(int image, int y, int x, int k) const {
    return ((std::int64_t{image} * shape.h + y) * shape.w + x) * shape.c + k;
  }
  __device__ std::int64_t in_dst(int image, int y, int x, int k) const {
    return ((std::int64_t{image} * shape.out_h + y) * shape.out_w + x) * shape.c + k;
  }
  // visit(y, x of a window, its rows, its columns) for all windows over a cell.
  template <class Visit>
  __device__ void for_each_window_over(int y, int x, Visit visit) const {
    const PoolCover over_y(y, shape.stride_h, shape.offset_h, shape.kernel_h, shape.out_h);
    const PoolCover over_x(x, shape.stride_w, shape.offset_w, shape.kernel_w, shape.out_w);
    for (int out_y = over_y.first; out_y < over_y.last; ++out_y)
      for (int out_x = over_x.first; out_x < over_x.last; ++out_x)
        visit(out_y, out_x, rows(out_y), columns(out_x));
  }
};

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
    Cells<lanes, Index> winner;
    for (int i = 0; i < lanes; ++i) winner.at[i] = kNoCell<Index>;
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
    *reinterpret_cast<Cells<lanes, Index>*>(index + at) = winner;
  }
};

template <int lanes, class T, class Index>
struct MaxBackward {
  Pool pool;
  const T* diff_dst;
  const Index* index;
  T* diff_src;

  __device__ void operator()(int image, int y, int x, int column) const {
    const int k = column * lanes;
    Lanes<lanes> sum{};
    pool.for_each_window_over(y, x, [&](int out_y, int out_x, PoolSpan rows, PoolSpan columns) {
      const std::int64_t at = pool.in_dst(image, out_y, out_x, k);
      const int cell = (y - rows.start) * pool.shape.kernel_w + x - columns.start;
      const auto winner = *reinterpret_cast<const Cells<lanes, Index>*>(index + at);
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

// use(lanes, extent of the results with channels in units of so many)
template <class T, class Use>
void by_lanes(const PoolShape& shape, int h, int w, Use use) {
  with_lanes<T>(shape.c % kMostLanes<T> == 0, [&](auto lanes) {
    use(lanes, Extent{h, w, shape.c / lanes});
  });
}

}  // namespace

void gpu::max_pool_forward(const PoolShape& shape, const Buffers& buffers, DeviceContext&) {
  const auto forward = [&]<class T, class Index>(T, Index) {
    by_lanes<T>(shape, shape.out_h, shape.out_w, [&]<class N>(N, const Extent& extent) {
      for_each_position(CudaWorker::current(), shape.n, extent,
                        MaxForward<N::value, T, Index>{Pool{shape}, buffers.get<T>(0),
                                                       buffers.get<T>(1), buffers.get<Index>(2)});
    });
  };
  with_pool_index(shape, [&](auto i) { with_values(buffers, [&](auto t) { forward(t, i); }); });
}

void gpu::max_pool_backward(const PoolShape& shape, const Buffers& buffers, DeviceContext&) {
  const auto backward = [&]<class T, class Index>(T, Index) {
    by_lanes<T>(shape, shape.h, shape.w, [&]<class N>(N, const Extent& extent) {
      for_each_position(CudaWorker::current(), shape.n, extent,
                        MaxBackward<N::value, T, Index>{Pool{shape}, buffers.get<T>(0),
                                                        buffers.get<Index>(1), buffers.get<T>(2)});
    });
  };
  with_pool_index(shape, [&](auto i) { with_values(buffers, [&](auto t) { backward(t, i); }); });
}

void gpu::average_pool_forward(const PoolShape& shape, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    by_lanes<T>(shape, shape.out_h, shape.out_w, [&]<class N>(N, const Extent& extent) {
      for_each_position(
          CudaWorker::current(), shape.n, extent,
          AverageForward<N::value, T>{Pool{shape}, buffers.get<T>(0), buffers.get<T>(1)});
    });
  });
}

void gpu::average_pool_backward(const PoolShape& shape, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    by_lanes<T>(shape, shape.h, shape.w, [&]<class N>(N, const Extent& extent) {
      for_each_position(
          CudaWorker::current(), shape.n, extent,
          AverageBackward<N::value, T>{Pool{shape}, buffers.get<T>(0), buffers.get<T>(1)});
    });
  });
}

}  // namespace omni
