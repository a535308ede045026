// Convolution as a matrix product: im2col copies the values under each position of the kernel into
// one row of a matrix, col2im adds such rows back. Works on bands of output rows, which may begin
// and end anywhere in the slice: several images make one matrix, and a large image needs no large
// matrix.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codelets/convolution/convolution_shape.hpp"
#include "codelets/dense/gemm.hpp"
#include "codelets/elementwise/activation_functors.hpp"
#include "runtime/tasks/device_context.hpp"

namespace omni {

// Output rows [first, first + count) of the slice, where row = image * out_h + y.
struct RowBand {
  std::int64_t first = 0, count = 0;
};

// columns: count * out_w rows of taps() values, those of one group.
void im2col(const ConvShape& shape, int group, RowBand band, const float* src, float* columns);

// Adds to diff_src.
void col2im(const ConvShape& shape, int group, RowBand band, const float* columns, float* diff_src);

// The three passes of convolution: one matrix product per band of output rows.
namespace lowering {

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

}  // namespace lowering
}  // namespace omni
