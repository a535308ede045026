// The played cuDNN computes convolutions by these loops, with sums in double precision. The result
// is target = sum + beta * target. With beta zero, the target is not read.
#pragma once

#include "tests/played_gpu/dnn/convolution.hpp"

namespace omni::played {

void forward(const Convolution& shape, const float* x, const float* filter, float* y);
void backward_data(const Convolution& shape, const float* filter, const float* diff_y, float beta,
                   float* diff_x);
void backward_filter(const Convolution& shape, const float* x, const float* diff_y, float beta,
                     float* diff_filter);

}  // namespace omni::played
