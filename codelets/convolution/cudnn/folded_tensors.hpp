// These functions fold the tensors of a convolution on a GPU (codelets/convolution/folding.hpp),
// and keep the number of filters. They are meant for images, whose three channels leave most of a
// matrix unit idle.
#pragma once

#include "codelets/convolution/convolution_shape.hpp"
#include "runtime/bf16/bf16.hpp"
#include "runtime/cuda/worker.hpp"

namespace omni::gpu {

// Returns whether the shape can be folded, and has so few channels and so small a stride that the
// folded convolution is faster.
bool is_worth_folding(const ConvShape& shape);
ConvShape folded(const ConvShape& shape);

// T is the type of src, To that of the folded tensor; both are float or Bf16.
template <class T, class To>
void fold_src(CudaWorker& worker, const ConvShape& shape, const T* src, To* folded);
template <class T, class To>
void fold_weights(CudaWorker& worker, const ConvShape& shape, const T* weights, To* folded);
// Computes weights = folded + keep * weights. If `keep` is 0, `weights` are not read.
template <class To>
void add_unfolded_weights(CudaWorker& worker, const ConvShape& shape, const To* folded, float keep,
                          float* weights);

}  // namespace omni::gpu
