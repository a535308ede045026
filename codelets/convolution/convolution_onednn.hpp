// The oneDNN kernels of the convolution codelets.
#pragma once

#ifdef OMNI_ONEDNN

#include "codelets/convolution/convolution.hpp"
#include "runtime/tasks/device_context.hpp"

namespace omni {

// Args: of any of the three passes.
template <class Args>
void conv_onednn(const Args& args, const Buffers& buffers, DeviceContext& context);

// What a task takes: that of the plan, which is made, since only oneDNN knows what it works with.
template <class Args>
WorkingFloats conv_onednn_floats(const Args& args, bool bf16_tensors);

}  // namespace omni

#endif
