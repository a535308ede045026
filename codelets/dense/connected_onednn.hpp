// The products of connected layers by oneDNN: outputs and both gradients, without bias.
#pragma once

#ifdef OMNI_ONEDNN

#include "codelets/dense/connected.hpp"
#include "codelets/dense/onednn_product.hpp"

namespace omni::onednn {

// Floats of scratch memory in the pass that takes most, without oneDNN's own scratch memory.
std::size_t connected_floats(const ConnectedShape& shape);

void connected_forward(const ConnectedShape& shape, const float* src, const float* weights,
                       float* dst, DeviceContext& context);
void connected_backward_data(const ConnectedShape& shape, const float* diff_dst,
                             const float* weights, float* diff_src, DeviceContext& context);
// For `rows` neurons: multiplier(their first diff_dst, diff_weights) adds to their gradient.
Multiplier connected_weights_gradient(const ConnectedShape& shape, int rows, const float* src,
                                      DeviceContext& context);

}  // namespace omni::onednn

#endif
