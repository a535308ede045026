// Convolution as a matrix product: im2col copies the values under each position of the kernel into
// one row of a matrix, col2im adds such rows back. Works on bands of output rows, which may begin
// and end anywhere in the slice: several images make one matrix, and a large image needs no large
// matrix.
#pragma once

#include <cstdint>

#include "codelets/convolution/convolution_shape.hpp"

namespace omni {

// Output rows [first, first + count) of the slice, where row = image * out_h + y.
struct RowBand {
  std::int64_t first = 0, count = 0;
};

// columns: count * out_w rows of taps() values, those of one group.
void im2col(const ConvShape& shape, int group, RowBand band, const float* src, float* columns);

// Adds to diff_src.
void col2im(const ConvShape& shape, int group, RowBand band, const float* columns, float* diff_src);

// True where src is its own lowered matrix.
bool lowers_to_itself(const ConvShape& shape);

}  // namespace omni
