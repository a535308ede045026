// Bias per channel and activation on a GPU.
#include "codelets/elementwise/channel_bias.hpp"

#include "codelets/cuda/activations.cuh"
#include "codelets/cuda/columns.cuh"
#include "codelets/cuda/map.cuh"

namespace omni {
namespace {

template <class F, int lanes, class T>
struct BiasAndActivation {
  struct Column {
    F f;
    Lanes<lanes> bias;
    T* values;
    int stride;
    __device__ void operator()(std::int64_t row) const {
      Lanes<lanes> value = load<lanes>(values, row * stride);
      for (int i = 0; i < lanes; ++i) value.at[i] = f(value.at[i] + bias.at[i]);
      store(values, row * stride, value);
    }
  };

  F f;
  const float* bias;  // null: none
  T* values;
  int stride;
  __device__ Column operator()(int column) const {
    const int k = column * lanes;
    Column at{f, {}, values + k, stride};
    if (bias != nullptr) at.bias = load<lanes>(bias, k);
    return at;
  }
};

template <int lanes, class T>
struct CollectValues {
  using Total = ColumnSums<1>;
  static constexpr int kLanes = lanes;
  const T* values;
  int columns;
  __device__ std::array<Total, lanes> operator()(const RowsOfThread& rows, int column) const {
    std::array<Total, lanes> totals{};
#pragma unroll 8
    for (std::int64_t row = rows.first; row < rows.last; row += rows.step) {
      const Lanes<lanes> value = load<lanes>(values, row * columns + column);
      for (int i = 0; i < lanes; ++i) totals[i].add({{value.at[i]}});
    }
    return totals;
  }
};

struct AddTo {
  float* sums;
  __device__ void operator()(int column, const std::array<float, 1>& sum) const {
    sums[column] += sum[0];
  }
};

// Of one pass: every value is one thread's.
template <class F, int lanes, class T>
class CollectGradient {
 public:
  using Total = ColumnSums<1>;
  static constexpr int kLanes = lanes;
  F f;
  T* diff;
  const T* values;
  int columns;
  __device__ std::array<Total, lanes> operator()(const RowsOfThread& rows, int column) const {
    std::array<Total, lanes> totals{};
    std::int64_t row = rows.first;
    for (; row + (kTogether - 1) * rows.step < rows.last; row += kTogether * rows.step)
      add<kTogether>(row, rows.step, column, totals);
    for (; row < rows.last; row += rows.step) add<1>(row, rows.step, column, totals);
    return totals;
  }

 private:
  // So many rows are read before one is written, which might be among them for all that is known.
  static constexpr int kTogether = 8;

  template <int together>
  __device__ void add(std::int64_t row, int step, int column,
                      std::array<Total, lanes>& totals) const {
    Lanes<lanes> value[together], gradient[together];
#pragma unroll
    for (int i = 0; i < together; ++i) {
      const std::int64_t at = (row + i * step) * columns + column;
      value[i] = load<lanes>(values, at);
      gradient[i] = load<lanes>(diff, at);
    }
#pragma unroll
    for (int i = 0; i < together; ++i) {
      for (int lane = 0; lane < lanes; ++lane) {
        gradient[i].at[lane] *= f.gradient(value[i].at[lane]);
        totals[lane].add({{gradient[i].at[lane]}});
      }
      store(diff, (row + i * step) * columns + column, gradient[i]);
    }
  }
};

}  // namespace

template <class T>
void gpu::add_bias_and_activate(CudaWorker& worker, std::int64_t rows, int columns,
                                const float* bias, Activation activation, T* values) {
  if (bias == nullptr && activation == Activation::linear) return;
  with_activation_of<T>(activation, [&]<class F>(F f) {
    with_lanes<T>(divides(kMostLanes<T>, columns, bias, values), [&]<class N>(N lanes) {
      for_each_column(worker, rows, columns / lanes,
                      BiasAndActivation<F, N::value, T>{f, bias, values, columns});
    });
  });
}
template void gpu::add_bias_and_activate(CudaWorker&, std::int64_t, int, const float*, Activation,
                                         float*);
template void gpu::add_bias_and_activate(CudaWorker&, std::int64_t, int, const float*, Activation,
                                         Bf16*);

template <class T>
void gpu::add_column_sums(CudaWorker& worker, std::int64_t rows, int columns, const T* values,
                          float* sums) {
  with_words<T>(
      columns,
      [&]<class N>(N) {
        total_columns(worker, rows, columns, CollectValues<N::value, T>{values, columns},
                      UseSums<1, AddTo>{{sums}});
      },
      values);
}
template void gpu::add_column_sums(CudaWorker&, std::int64_t, int, const float*, float*);
template void gpu::add_column_sums(CudaWorker&, std::int64_t, int, const Bf16*, float*);

void gpu::channel_bias_forward(const ChannelBiasForwardArgs& args, const Buffers& buffers,
                               DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    add_bias_and_activate(CudaWorker::current(), args.rows, args.c, buffers.get(0), args.activation,
                          buffers.get<T>(1));
  });
}

void gpu::channel_bias_backward(const ChannelBiasBackwardArgs& args, const Buffers& buffers,
                                DeviceContext&) {
  CudaWorker& worker = CudaWorker::current();
  with_values(buffers, [&]<class T>(T) {
    T* diff = buffers.get<T>(0);
    if (args.activation == Activation::linear)
      return add_column_sums(worker, args.rows, args.c, diff, buffers.get(1));
    with_usual_activation(args.activation, [&]<class F>(F f) {
      const T* values = buffers.get<T>(2);
      with_words<T>(
          args.c,
          [&]<class N>(N) {
            total_columns(worker, args.rows, args.c,
                          CollectGradient<F, N::value, T>{f, diff, values, args.c},
                          UseSums<1, AddTo>{{buffers.get(1)}});
          },
          diff, values);
    });
  });
}

}  // namespace omni
