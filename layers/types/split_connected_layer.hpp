// A connected layer whose weights no cache holds: all images of the mini-batch at once, one block
// of neurons per task. Its weights, their gradients and their velocities are cut into the same
// blocks, so that each is read, added to and updated in one place.
#pragma once

#include "layers/layer_builder.hpp"

namespace omni {

// What both kinds of connected layer have in common: the key, and the description of the weights.
int connected_outputs(LayerBuilder& builder);
Param connected_weights(LayerBuilder& builder, const Extent& src, int outputs);

// Whether the section that is being built is for this layer.
bool splits_by_neurons(LayerBuilder& builder);
std::unique_ptr<Layer> make_split_connected_layer(LayerBuilder& builder);

}  // namespace omni
