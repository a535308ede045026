// Default sizes: images per slice, sums per gradient, blocks of connected layers.
#pragma once

#include "layers/layer_builder.hpp"

namespace omni {

// Images per slice: the average layer's task takes about half a millisecond, every core gets a
// slice, and on few cores a larger mini-batch gets four. All slices but the last have one size,
// since each size needs calibration.
int choose_slice(const NetParts& parts, int batch, int cores);

// Slices of the rank's share. `alike`: cut as one rank alone would cut the mini-batch.
Result<Slices> share_slices(int batch, int slice, int rank, int ranks, bool alike);

// Sums per gradient. Tasks that add to one sum wait for each other. Two workers seldom compete, and
// with few slices per GPU cores get no tasks, so one sum is enough there.
GradientSums choose_gradient_sums(int slices, int cores, int gpus);
// 1, 2 or 4 sums over the whole mini-batch, each over as many consecutive slices, split among
// ranks. Added up in pairs, they give the same bits on 1, 2 and 4 ranks.
GradientSums fixed_gradient_sums(const Slices& slices);

// Blocks of neurons of a connected layer, one task per block for the whole mini-batch. A large one:
// with one slice per GPU one block per GPU, to fill it; else a constant, since the order of sums,
// and so the bits, depend on it. Where `ranks` sum gradients, the constant or, in a smaller layer,
// the larger of `ranks` and `cores` up to it: all ranks have the same.
int choose_connected_blocks(std::int64_t weights, int slices, int cores, int gpus, int ranks);

}  // namespace omni
