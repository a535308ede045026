// Winograd's method F(n x n, r x r) convolves with kernels of r x r taps, r = 3 to 5. A tile reads
// m x m inputs, m = 6 or 8, and gives n x n outputs, n = m + 1 - r. Kernels and inputs are
// transformed. Then the products of one position in all tiles are one matrix product.
//
// A pair of channels costs m x m products per tile, 36 or 64. The direct sum takes 144 or 324
// products for 3x3 taps, and 100 or 400 for 5x5 taps. Rounding errors are 5 and 20 times those of
// the direct sum. Only 6x6 tiles are computed in bf16. The errors of their results are about 1 %,
// those of direct sums of rounded numbers 0.2 %.
//
// Forward computes dst = O [(K w K') * (I src I')] O', where * multiplies position by position and
// ' is the transpose. The gradient of the weights is the adjoint. The gradient of the data is a
// forward convolution of diff_dst with rotated kernels. The method is that of Lavin and Gray 2016,
// who write B', G, A' for I, K, O. winograd_transforms.hpp computes these matrices.
#pragma once

#include <cstddef>

#include "codelets/convolution/convolution.hpp"
#include "codelets/dense/gemm.hpp"
#include "runtime/tasks/device_context.hpp"

namespace omni::winograd {

// Returns whether the method can compute this shape without folding. It needs 3x3 to 5x5 taps, no
// stride or dilation, and padding smaller than the kernel. The channels and filters of a group must
// fill whole vectors.
bool supports(const ConvShape& shape);

// Returns whether the method is suitable for this shape, as it is or folded (winograd_folded.hpp).
// A shape is folded only if that saves enough products to be worth the copies.
bool suits(const ConvShape& shape, int tile_in);

struct Method {
  int tile_in;  // inputs of a tile across: 6 or 8
  Gemm product;
  float* scratch = nullptr;  // scratch_floats() of them; null: the context's scratch
};

std::size_t scratch_floats(const ConvShape& shape, int tile_in, Pass pass);

void run(const Method& method, const ConvForwardArgs& args, const Buffers& buffers,
         DeviceContext& context);
// Computes the gradient of the weights. It always adds to diff_weights, even if args.adds is false.
void run(const Method& method, const ConvWeightsArgs& args, const Buffers& buffers,
         DeviceContext& context);
void run(const Method& method, const ConvDataArgs& args, const Buffers& buffers,
         DeviceContext& context);

}  // namespace omni::winograd
