// The oneDNN kernels of the convolution codelets.
#pragma once

#ifdef OMNI_ONEDNN

#include "codelets/convolution/convolution.hpp"

namespace omni {

void conv_forward_onednn(const ConvForwardArgs& args, const Buffers& buffers,
                         DeviceContext& context);
void conv_backward_weights_onednn(const ConvWeightsArgs& args, const Buffers& buffers,
                                  DeviceContext& context);
void conv_backward_data_onednn(const ConvDataArgs& args, const Buffers& buffers,
                               DeviceContext& context);

}  // namespace omni

#endif
