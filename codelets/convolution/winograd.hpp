// Convolution with 3x3 to 5x5 taps by Winograd's F(n x n, r x r), n + r = 7 or 9. The kernels and
// the 6x6 or 8x8 inputs of a tile of outputs are transformed. A pair of channels then costs 36 or
// 64 products per tile: for 3x3 taps instead of 144 or 324, for 5x5 instead of 100 or 400. The
// products of one position in all tiles are one matrix product. Rounding errors are 5 and 20 times
// those of the direct sum; in bf16 only 6x6 tiles are, whose results are off by some 1 %, where
// direct sums of rounded numbers are by 0.2 %.
//
// Forward  dst = O [(K w K') * (I src I')] O', where * multiplies position by position and ' is the
// transposed; both gradients are its adjoints. Lavin and Gray 2016 have the matrices I, K, O.
#pragma once

#include <cstddef>

#include "codelets/convolution/convolution_shape.hpp"
#include "codelets/dense/gemm.hpp"
#include "codelets/elementwise/activation_functors.hpp"
#include "runtime/tasks/device_context.hpp"

namespace omni::winograd {

// Whether Winograd's method can compute this shape: directly, or folded (winograd_folded.hpp) where
// that saves enough products to pay for the copies.
bool suits(const ConvShape& shape, int tile_in);

struct Method {
  int tile_in;  // inputs of a tile across: 6 or 8
  Gemm product;
  float* scratch = nullptr;  // scratch_floats() of them; null: the context's
};

std::size_t scratch_floats(const ConvShape& shape, int tile_in, Pass pass);

// bias: null for none.
void forward(const Method& method, const ConvShape& shape, const float* src, const float* weights,
             const float* bias, Activation activation, float* dst, DeviceContext& context);
// Adds to diff_weights.
void backward_weights(const Method& method, const ConvShape& shape, const float* src,
                      const float* diff_dst, float* diff_weights, DeviceContext& context);
// adds: to diff_src.
void backward_data(const Method& method, const ConvShape& shape, const float* diff_dst,
                   const float* weights, bool adds, float* diff_src, DeviceContext& context);

}  // namespace omni::winograd
