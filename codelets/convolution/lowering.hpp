// Lowering computes a convolution as a matrix product. im2col copies the values under each position
// of the kernel into a row of a matrix; col2im adds such rows back. They work on bands of output
// rows. A band may begin and end anywhere in the slice. So several images make one matrix, and a
// large image makes several.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codelets/convolution/convolution.hpp"
#include "codelets/dense/gemm.hpp"
#include "runtime/tasks/device_context.hpp"

namespace omni {

// A RowBand has the output rows [first, first + count) of the slice, where row = image * out_h + y.
struct RowBand {
  std::int64_t first = 0, count = 0;
};

// Writes the lowered matrix to `columns`: count * out_w rows of taps() values each, of one group.
void im2col(const ConvShape& shape, int group, RowBand band, const float* src, float* columns);

// Adds the rows of the lowered matrix to diff_src.
void col2im(const ConvShape& shape, int group, RowBand band, const float* columns, float* diff_src);

// The following functions compute the three passes of a convolution, by one matrix product per
// group and band of output rows.
namespace lowering {

struct Method {
  Gemm product = gemm;
  int band_rows = 0;  // output rows per product; 0: as many as fit the cache
};

// Returns how many floats of the context's scratch memory a pass needs.
std::size_t scratch_floats(const Method& method, const ConvShape& shape);

void run(const Method& method, const ConvForwardArgs& args, const Buffers& buffers,
         DeviceContext& context);
// Computes the gradient of the weights. It always adds to diff_weights, even if args.adds is false.
void run(const Method& method, const ConvWeightsArgs& args, const Buffers& buffers,
         DeviceContext& context);
void run(const Method& method, const ConvDataArgs& args, const Buffers& buffers,
         DeviceContext& context);

}  // namespace lowering
}  // namespace omni
