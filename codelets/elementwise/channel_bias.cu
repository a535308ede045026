// This file adds a bias per channel and applies the activation on a GPU.
#include "codelets/elementwise/channel_bias.hpp"

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
    for_rows<kRowsTogether>(
        rows, [&](std::int64_t row) { return load<lanes>(values, row * columns + column); },
        [&](const auto& loaded) {
#pragma unroll
          for (const Lanes<lanes>& value : loaded)
            for (int i = 0; i < lanes; ++i) totals[i].add({{value.at[i]}});
        });
    return totals;
  }
};

struct AddTo {
  float* sums;
  __device__ void operator()(int column, const ColumnSums<1>& total) const {
    sums[column] += total.sum[0];
  }
};

// CollectGradient multiplies the gradient by that of the activation, in place, and adds it up in
// the same pass. This works because each value belongs to one thread.
template <class F, int lanes, class T>
struct CollectGradient {
  struct Values {
    std::int64_t at;
    Lanes<lanes> value, given;
  };

  using Total = ColumnSums<1>;
  static constexpr int kLanes = lanes;
  F f;
  T* diff;
  const T* values;
  int columns;
  __device__ std::array<Total, lanes> operator()(const RowsOfThread& rows, int column) const {
    std::array<Total, lanes> totals{};
    for_rows<kRowsTogether>(
        rows,
        [&](std::int64_t row) {
          const std::int64_t at = row * columns + column;
          return Values{at, load<lanes>(values, at), load<lanes>(diff, at)};
        },
        [&](const auto& loaded) {
#pragma unroll
          for (const Values& row : loaded) {
            Lanes<lanes> gradient = row.given;
            for (int i = 0; i < lanes; ++i) {
              gradient.at[i] *= f.gradient(row.value.at[i]);
              totals[i].add({{gradient.at[i]}});
            }
            store(diff, row.at, gradient);
          }
        });
    return totals;
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
  with_lanes<T, kLanesOfWord<T>>(divides(kLanesOfWord<T>, columns, values), [&]<class N>(N) {
    total_columns(worker, rows, columns, CollectValues<N::value, T>{values, columns}, AddTo{sums});
  });
}
template void gpu::add_column_sums(CudaWorker&, std::int64_t, int, const float*, float*);
template void gpu::add_column_sums(CudaWorker&, std::int64_t, int, const Bf16*, float*);

void gpu::channel_bias_forward(const ChannelBiasArgs& args, const Buffers& buffers,
                               DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    add_bias_and_activate(CudaWorker::current(), args.rows, args.c, buffers.get(0), args.activation,
                          buffers.get<T>(1));
  });
}

void gpu::channel_bias_backward(const ChannelBiasArgs& args, const Buffers& buffers,
                                DeviceContext&) {
  CudaWorker& worker = CudaWorker::current();
  with_values(buffers, [&]<class T>(T) {
    T* diff = buffers.get<T>(0);
    if (args.activation == Activation::linear)
      return add_column_sums(worker, args.rows, args.c, diff, buffers.get(1));
    with_usual_activation(args.activation, [&]<class F>(F f) {
      const T* values = buffers.get<T>(2);
      const bool words = divides(kLanesOfWord<T>, args.c, diff, values);
      with_lanes<T, kLanesOfWord<T>>(words, [&]<class N>(N) {
        total_columns(worker, args.rows, args.c,
                      CollectGradient<F, N::value, T>{f, diff, values, args.c},
                      AddTo{buffers.get(1)});
      });
    });
  });
}

}  // namespace omni
