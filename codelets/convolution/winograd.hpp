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

#include "codelets/convolution/convolution.hpp"
#include "codelets/dense/gemm.hpp"
#include "runtime/tasks/device_context.hpp"

namespace omni::winograd {

// Whether Winograd's method can compute this shape: directly, or folded (see below) where
// that saves enough products to pay for the copies.
bool suits(const ConvShape& shape, int tile_in);

struct Method {
  int tile_in;  // inputs of a tile across: 6 or 8
  Gemm product;
  float* scratch = nullptr;  // scratch_floats() of them; null: the context's
};

std::size_t scratch_floats(const ConvShape& shape, int tile_in, Pass pass);

void run(const Method& method, const ConvForwardArgs& args, const Buffers& buffers,
         DeviceContext& context);
// Adds to diff_weights, whatever args.adds is.
void run(const Method& method, const ConvWeightsArgs& args, const Buffers& buffers,
         DeviceContext& context);
void run(const Method& method, const ConvDataArgs& args, const Buffers& buffers,
         DeviceContext& context);

// Where it takes folding first: with a stride, as first layers have, or with channels that are no
// whole vectors. Its run() leaves the gradient of a bias to its caller.
bool supports(const ConvShape& shape);  // without folding

namespace folded {

bool suits(const ConvShape& shape, int tile_in);

std::size_t scratch_floats(const ConvShape& shape, int tile_in, Pass pass);

void run(const Method& method, const ConvForwardArgs& args, const Buffers& buffers,
         DeviceContext& context);
void run(const Method& method, const ConvWeightsArgs& args, const Buffers& buffers,
         DeviceContext& context);
void run(const Method& method, const ConvDataArgs& args, const Buffers& buffers,
         DeviceContext& context);

}  // namespace folded

}  // namespace omni::winograd
