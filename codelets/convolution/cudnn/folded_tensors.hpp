// These functions fold a convolution's tensors on a GPU (codelets/convolution/folding.hpp), and
// keep the number of filters. They are for images, whose three channels leave most of a matrix unit
// idle.
#pragma once

#include "codelets/convolution/convolution_shape.hpp"
#include "runtime/bf16/bf16.hpp"
#include "runtime/cuda/worker.hpp"

namespace omni::gpu {

// Returns whether there are so few channels that folding pays.
bool is_worth_folding(const ConvShape& shape);
ConvShape folded(const ConvShape& shape);

// T is the type of src, To that of folded tensors; both are float or Bf16.
template <class T, class To>
void fold_src(CudaWorker& worker, const ConvShape& shape, const T* src, To* folded);
template <class T, class To>
void fold_weights(CudaWorker& worker, const ConvShape& shape, const T* weights, To* folded);
// Computes weights = folded + keep * weights. If `keep` is 0, `weights` are not read.
template <class To>
void add_unfolded_weights(CudaWorker& worker, const ConvShape& shape, const To* folded, float keep,
                          float* weights);

}  // namespace omni::gpu
