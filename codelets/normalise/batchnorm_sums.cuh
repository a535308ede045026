// What both first passes of backward through batch normalisation leave by channel, from the totals
// of the gradient and of its product with src - mean.
#pragma once

#include "codelets/cuda/columns.cuh"

namespace omni {

struct StoreDiff {
  float* sums;
  const float* inv_std;
  int c;
  __device__ void operator()(int k, const ColumnSums<2>& total) const {
    sums[k] = total.sum[0];
    sums[c + k] = total.sum[1] * inv_std[k];
  }
};

}  // namespace omni
