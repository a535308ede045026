// This header has Winograd's convolution of shapes that must be folded first (folding.hpp). They
// are those with a stride, as first layers have, or with channels that fill no whole vectors.
#pragma once

#include <cstddef>

#include "codelets/convolution/winograd.hpp"

namespace omni::winograd::folded {

// Returns whether winograd::supports() holds for the folded shape, and its products are less than
// 0.6 of the direct sum's.
bool suits(const ConvShape& shape, int tile_in);

std::size_t scratch_floats(const ConvShape& shape, int tile_in, Pass pass);

void run(const Method& method, const ConvForwardArgs& args, const Buffers& buffers,
         DeviceContext& context);
// Leaves the gradient of a bias to the caller.
void run(const Method& method, const ConvWeightsArgs& args, const Buffers& buffers,
         DeviceContext& context);
void run(const Method& method, const ConvDataArgs& args, const Buffers& buffers,
         DeviceContext& context);

}  // namespace omni::winograd::folded
