// Bias per channel and activation on a GPU.
#include "codelets/elementwise/channel_bias.hpp"

#include "codelets/cuda/columns.cuh"
#include "codelets/cuda/rows.cuh"

namespace omni {
namespace {

template <class F, int lanes>
struct BiasAndActivation {
  struct Column {
    F f;
    Lanes<lanes> bias;
    Lanes<lanes>* values;
    int stride;
    __device__ void operator()(std::int64_t row) const {
      Lanes<lanes>& place = values[row * stride];
      Lanes<lanes> value = place;
      for (int i = 0; i < lanes; ++i) value.at[i] = f(value.at[i] + bias.at[i]);
      place = value;
    }
  };

  F f;
  const Lanes<lanes>* bias;  // null: none
  Lanes<lanes>* values;
  int columns;  // of so many lanes
  __device__ Column operator()(int column) const {
    Column at{f, {}, values + column, columns};
    if (bias != nullptr) at.bias = bias[column];
    return at;
  }
};

template <int lanes, class F>
void apply(CudaWorker& worker, std::int64_t rows, int columns, const float* bias, F f,
           float* values) {
  for_each_column(
      worker, rows, columns / lanes,
      BiasAndActivation<F, lanes>{f, reinterpret_cast<const Lanes<lanes>*>(bias),
                                  reinterpret_cast<Lanes<lanes>*>(values), columns / lanes});
}

struct Value {
  const float* values;
  int columns;
  __device__ std::array<float, 1> operator()(std::int64_t row, int column) const {
    return {values[row * columns + column]};
  }
};

struct AddTo {
  float* sums;
  __device__ void operator()(int column, const std::array<float, 1>& sum) const {
    sums[column] += sum[0];
  }
};

}  // namespace

void gpu::add_bias_and_activate(CudaWorker& worker, std::int64_t rows, int columns,
                                const float* bias, Activation activation, float* values) {
  if (bias == nullptr && activation == Activation::linear) return;
  with_activation(activation, [&](auto f) {
    if (by_fours(columns, bias, values))
      apply<4>(worker, rows, columns, bias, f, values);
    else
      apply<1>(worker, rows, columns, bias, f, values);
  });
}

void gpu::add_column_sums(CudaWorker& worker, std::int64_t rows, int columns, const float* values,
                          float* sums) {
  sum_columns<1>(worker, rows, columns, Value{values, columns}, AddTo{sums});
}

void gpu::channel_bias_forward(const ChannelBiasForwardArgs& args, const Buffers& buffers,
                               DeviceContext&) {
  add_bias_and_activate(CudaWorker::current(), args.rows, args.c, buffers.get(0), args.activation,
                        buffers.get(1));
}

void gpu::channel_bias_backward(const ChannelBiasBackwardArgs& args, const Buffers& buffers,
                                DeviceContext&) {
  add_column_sums(CudaWorker::current(), args.rows, args.c, buffers.get(0), buffers.get(1));
}

}  // namespace omni
