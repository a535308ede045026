// This header has Winograd's convolution of shapes that must be folded first (folding.hpp). Such
// shapes have a stride, as in first layers, or channels that do not fill whole vectors.
#pragma once

#include <cstddef>

#include "codelets/convolution/winograd.hpp"

namespace omni::winograd::folded {

// Returns whether winograd::supports() is true for the folded shape, and the folded shape needs
// less than 0.6 times the products of the direct sum.
bool suits(const ConvShape& shape, int tile_in);

std::size_t scratch_floats(const ConvShape& shape, int tile_in, Pass pass);

void run(const Method& method, const ConvForwardArgs& args, const Buffers& buffers,
         DeviceContext& context);
// Computes the gradient of the weights. The caller computes the gradient of a bias.
void run(const Method& method, const ConvWeightsArgs& args, const Buffers& buffers,
         DeviceContext& context);
void run(const Method& method, const ConvDataArgs& args, const Buffers& buffers,
         DeviceContext& context);

}  // namespace omni::winograd::folded
