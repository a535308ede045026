// Winograd's convolution where it takes folding first: with a stride, as first layers have, or with
// channels that are no whole vectors.
#pragma once

#include "codelets/convolution/winograd.hpp"

namespace omni::winograd {

bool supports(const ConvShape& shape);  // without folding

namespace folded {

bool suits(const ConvShape& shape, int tile_in);

std::size_t scratch_floats(const ConvShape& shape, int tile_in, Pass pass);

void forward(const Method& method, const ConvShape& shape, const float* src, const float* weights,
             const float* bias, Activation activation, float* dst, DeviceContext& context);
void backward_weights(const Method& method, const ConvShape& shape, const float* src,
                      const float* diff_dst, float* diff_weights, DeviceContext& context);
void backward_data(const Method& method, const ConvShape& shape, const float* diff_dst,
                   const float* weights, bool adds, float* diff_src, DeviceContext& context);

}  // namespace folded
}  // namespace omni::winograd
