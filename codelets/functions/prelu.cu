// This file computes PReLUs on a GPU.
#include "codelets/functions/prelu.hpp"

#include "codelets/cuda/columns.cuh"
#include "codelets/cuda/map.cuh"

namespace omni {
namespace {

// The following passes read the slope of their column. Without slopes there is a constant.
struct Slopes {
  const float* slopes;  // null: `constant`
  float constant;

  Slopes(const PReluArgs& args, const Buffers& buffers, std::size_t at)
      : slopes(args.learned ? buffers.get(at) : nullptr), constant(args.slope) {}
  __device__ float operator[](int k) const { return slopes != nullptr ? slopes[k] : constant; }
};

template <class T>
struct PReluForward {
  struct Column {
    PReluForward pass;
    int k;
    float slope;
    __device__ void operator()(std::int64_t row) const {
      const std::int64_t at = row * pass.columns + k;
      const float x = pass.src[at];
      pass.dst[at] = x > 0 ? x : x * slope;
    }
  };

  int columns;
  Slopes slopes;
  const T* src;
  T* dst;
  __device__ Column operator()(int k) const { return {*this, k, slopes[k]}; }
};

template <class T>
struct PReluBackward {
  struct Column {
    PReluBackward pass;
    int k;
    float slope;
    __device__ void operator()(std::int64_t row) const {
      const std::int64_t at = row * pass.columns + k;
      const float x = pass.src[at], diff = pass.diff_dst[at];
      pass.diff_src[at] = x > 0 ? diff : diff * slope;
    }
  };

  int columns;
  Slopes slopes;
  const T *src, *diff_dst;
  T* diff_src;
  __device__ Column operator()(int k) const { return {*this, k, slopes[k]}; }
};

template <class T>
struct CollectSlopes {
  using Total = ColumnSums<1>;
  static constexpr int kLanes = 1;
  const T *src, *diff_dst;
  int columns;
  __device__ std::array<Total, 1> operator()(const RowsOfThread& rows, int column) const {
    std::array<Total, 1> total{};
    for_rows<kRowsTogether>(
        rows,
        [&](std::int64_t row) {
          const std::int64_t at = row * columns + column;
          const float x = src[at];
          return (x > 0 ? 0.0f : x) * static_cast<float>(diff_dst[at]);
        },
        [&](const auto& shares) {
#pragma unroll
          for (const float share : shares) total[0].add({{share}});
        });
    return total;
  }
};

struct AddToSlope {
  float* sums;
  __device__ void operator()(int column, const ColumnSums<1>& total) const {
    sums[column] += total.sum[0];
  }
};

}  // namespace

void gpu::prelu_forward(const PReluArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    for_each_column(
        CudaWorker::current(), args.rows, args.c,
        PReluForward<T>{args.c, Slopes(args, buffers, 2), buffers.get<T>(0), buffers.get<T>(1)});
  });
}

void gpu::prelu_backward(const PReluArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    for_each_column(CudaWorker::current(), args.rows, args.c,
                    PReluBackward<T>{args.c, Slopes(args, buffers, 3), buffers.get<T>(0),
                                     buffers.get<T>(1), buffers.get<T>(2)});
  });
}

void gpu::prelu_backward_slopes(const PReluArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    total_columns(CudaWorker::current(), args.rows, args.c,
                  CollectSlopes<T>{buffers.get<T>(0), buffers.get<T>(1), args.c},
                  AddToSlope{buffers.get(2)});
  });
}

}  // namespace omni
