// This header adds a bias per channel, and applies an activation, on rows of channels. A codelet
// does so for products that cannot apply them. Plain functions do so for kernels that apply them to
// their results.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "codelets/elementwise/activation_functors.hpp"
#include "runtime/tasks/access.hpp"
#include "runtime/tasks/kernel.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

class CudaWorker;

// Computes values = activation(values + bias) in one pass. `bias` may be null. T is float or Bf16.
template <class T>
void add_bias_and_activate(std::int64_t rows, int columns, const float* bias, Activation activation,
                           T* values) {
  if (bias == nullptr) {
    activate(activation, values, rows * columns);
    return;
  }
  with_activation(activation, [=](auto f) {
    for (std::int64_t row = 0; row < rows; ++row) {
      T* __restrict line = values + row * columns;
      for (int k = 0; k < columns; ++k) line[k] = f(line[k] + bias[k]);
    }
  });
}

// Adds the sum of column k of a matrix to sums[k]. value(index) returns a value of the matrix; each
// is asked for once. Columns are added in blocks whose sums stay in registers. Only their totals
// are added to `sums`, so small values are not lost in large sums.
void add_sums_by_column(std::int64_t rows, int columns, float* sums, auto value) {
  constexpr int kBlock = 64;
  for (int first = 0; first < columns; first += kBlock) {
    std::array<float, kBlock> block{};
    const int width = std::min(kBlock, columns - first);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t line = row * columns + first;
      if (width == kBlock)
        for (int k = 0; k < kBlock; ++k) block[k] += value(line + k);
      else
        for (int k = 0; k < width; ++k) block[k] += value(line + k);
    }
    for (int k = 0; k < width; ++k) sums[first + k] += block[k];
  }
}
void add_column_sums(std::int64_t rows, int columns, const auto* values, float* sums) {
  add_sums_by_column(rows, columns, sums,
                     [=](std::int64_t i) { return static_cast<float>(values[i]); });
}

struct ChannelBiasArgs {
  std::int64_t rows = 0;  // images * h * w
  int c = 0;
  // Forward applies this activation. Backward first multiplies the gradient by that of the
  // activation, in place, unless it is `linear`.
  Activation activation = Activation::linear;
};

namespace reference {

template <class T>
void channel_bias_forward(const ChannelBiasArgs& args, const T* bias, T* values) {
  const std::int64_t count = args.rows * args.c;
  for (std::int64_t i = 0; i < count; ++i) values[i] += bias[i % args.c];
  activate(args.activation, values, count);
}

// The activation's gradient is a function of `values`, which are not read for `linear`.
template <class T>
void channel_bias_backward(const ChannelBiasArgs& args, T* diff, T* diff_bias, const T* values) {
  for (std::int64_t i = 0; i < args.rows * args.c; ++i) {
    if (args.activation != Activation::linear)
      diff[i] *= with_activation(args.activation, [&](auto f) { return f.gradient(values[i]); });
    diff_bias[i % args.c] += diff[i];
  }
}

}  // namespace reference

namespace gpu {

// The following functions do the same as the plain functions above, in the memory of a GPU.
template <class T>
void add_bias_and_activate(CudaWorker& worker, std::int64_t rows, int columns, const float* bias,
                           Activation activation, T* values);
template <class T>
void add_column_sums(CudaWorker& worker, std::int64_t rows, int columns, const T* values,
                     float* sums);
}  // namespace gpu

OMNI_CODELET(ChannelBiasArgs, channel_bias_forward);  // {bias R, values RW}
// The buffers are {diff R, diff_bias +=} or, with an activation, {diff RW, diff_bias +=, values R}.
OMNI_CODELET(ChannelBiasArgs, channel_bias_backward);

// Submits backward. The activation's gradient is a function of `values`, which may be null if the
// activation is `linear`.
void submit_channel_bias_backward(const ChannelBiasArgs& args, const Tensor& diff,
                                  const Tensor& diff_bias, const Tensor* values, TaskTag tag = {});

}  // namespace omni
