// The three passes of convolution by lowering: one matrix product per band of output rows.
#pragma once

#include <cstddef>

#include "codelets/convolution/convolution_shape.hpp"
#include "codelets/dense/gemm.hpp"
#include "codelets/elementwise/activation_functors.hpp"
#include "runtime/tasks/device_context.hpp"

namespace omni::lowering {

struct Method {
  Gemm product = gemm;
  int band_rows = 0;  // output rows of a product; 0: as many as fit the cache
};

// Floats of the context's scratch memory that a pass takes.
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
