// What all kernels of pooling know: which windows and cells lie over each other, and where their
// values are.
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
  template <class Visit>
  __device__ void for_each_window_over(int y, int x, Visit visit) const {
    const PoolCover over_y(y, shape.stride_h, shape.offset_h, shape.kernel_h, shape.out_h);
    const PoolCover over_x(x, shape.stride_w, shape.offset_w, shape.kernel_w, shape.out_w);
    for (int out_y = over_y.first; out_y < over_y.last; ++out_y)
      for (int out_x = over_x.first; out_x < over_x.last; ++out_x)
        visit(out_y, out_x, rows(out_y), columns(out_x));
  }
};

}  // namespace omni
