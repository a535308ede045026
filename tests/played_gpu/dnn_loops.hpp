// Convolutions as loops over all that takes part, summed in double precision: what the played cuDNN
// computes. target = alpha * sum + beta * target; with beta zero, the target is not read.
#pragma once

#include "tests/played_gpu/dnn_descriptors.hpp"

namespace omni::played {

struct Scales {
  float alpha, beta;
};

// What is fused behind a forward convolution: target = relu(alpha * sum + beta * added + bias).
struct Fused {
  const float* added = nullptr;  // null: the target itself
  const float* bias = nullptr;   // null: none
  bool relu = false;
};

void forward(const Convolution& shape, const float* x, const float* filter, Scales scales,
             const Fused& fused, float* y);
void backward_data(const Convolution& shape, const float* filter, const float* diff_y,
                   Scales scales, float* diff_x);
void backward_filter(const Convolution& shape, const float* x, const float* diff_y, Scales scales,
                     float* diff_filter);

}  // namespace omni::played
