// Convolution on a GPU without cuDNN, for what cuDNN refuses: lowered to matrix products of cuBLAS.
#pragma once

#include "codelets/convolution/convolution.hpp"

namespace omni::gpu {

KernelFunction<ConvForwardArgs> conv_forward_lowered;
KernelFunction<ConvWeightsArgs> conv_backward_weights_lowered;
KernelFunction<ConvDataArgs> conv_backward_data_lowered;

}  // namespace omni::gpu
