// The three passes of convolution as matrix products, with the choices of Caffe con Troll (Hadjis
// et al., 2015): how much of a kernel is lowered, which copies what the products read, and how much
// is left to be lifted, which adds up what they give.
#pragma once

#include <cstddef>

#include "codelets/convolution/convolution_shape.hpp"
#include "codelets/dense/gemm.hpp"
#include "codelets/elementwise/activation_functors.hpp"
#include "runtime/tasks/device_context.hpp"

namespace omni::lowering {

// What of a kernel is lowered: all of it (their type 1), every row of it by itself (2), nothing
// (3). One product per row, or per tap, remains, and as many terms to lift.
enum class Type { kernel = 1, row = 2, tap = 3 };

struct Method {
  Type type = Type::kernel;
  Gemm product = gemm;
  int images = 0;  // that a product takes at once (their b_p); 0: as many rows as fit the cache, or
                   // one image where something is lifted
};

// Of the context.
std::size_t scratch_floats(const Method& method, const ConvShape& shape);

// bias: null for none.
void forward(const Method& method, const ConvShape& shape, const float* src, const float* weights,
             const float* bias, Activation activation, float* dst, DeviceContext& context);
// Adds to diff_weights, and to diff_bias unless that is null.
void backward_weights(const Method& method, const ConvShape& shape, const float* src,
                      const float* diff_dst, float* diff_weights, float* diff_bias,
                      DeviceContext& context);
// adds: to diff_src.
void backward_data(const Method& method, const ConvShape& shape, const float* diff_dst,
                   const float* weights, bool adds, float* diff_src, DeviceContext& context);

}  // namespace omni::lowering
