// The oneDNN kernels of the convolution codelets.
#pragma once

#ifdef OMNI_ONEDNN

#include "codelets/convolution/convolution.hpp"
#include "runtime/tasks/device_context.hpp"

namespace omni {

void conv_forward_onednn(const ConvForwardArgs& args, const Buffers& buffers,
                         DeviceContext& context);
void conv_backward_weights_onednn(const ConvWeightsArgs& args, const Buffers& buffers,
                                  DeviceContext& context);
void conv_backward_data_onednn(const ConvDataArgs& args, const Buffers& buffers,
                               DeviceContext& context);

// What a task takes: that of the plan, which is made, since only oneDNN knows what it works with.
WorkingFloats conv_onednn_floats(const ConvForwardArgs& args, bool bf16_tensors);
WorkingFloats conv_onednn_floats(const ConvWeightsArgs& args, bool bf16_tensors);
WorkingFloats conv_onednn_floats(const ConvDataArgs& args, bool bf16_tensors);

}  // namespace omni

#endif
