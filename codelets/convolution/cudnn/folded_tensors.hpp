// The tensors of a convolution on a GPU, folded as codelets/convolution/folding.hpp says; filters
// stay as many as they are. For images, whose three channels leave matrix units mostly idle.
#pragma once

#include "codelets/convolution/convolution_shape.hpp"
#include "runtime/bf16/bf16.hpp"
#include "runtime/cuda/worker.hpp"

namespace omni::gpu {

// With many channels folding only costs.
bool is_worth_folding(const ConvShape& shape);
ConvShape folded(const ConvShape& shape);

// T: of src. To: in which folded tensors are, floats or Bf16.
template <class T, class To>
void fold_src(CudaWorker& worker, const ConvShape& shape, const T* src, To* folded);
template <class T, class To>
void fold_weights(CudaWorker& worker, const ConvShape& shape, const T* weights, To* folded);
// weights = folded + keep * weights, where 0 does not read.
template <class To>
void add_unfolded_weights(CudaWorker& worker, const ConvShape& shape, const To* folded, float keep,
                          float* weights);

}  // namespace omni::gpu
