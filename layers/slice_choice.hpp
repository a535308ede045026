// Default sizes: images per slice, sums per gradient, blocks of connected layers.
#pragma once

#include "layers/layer_builder.hpp"

namespace omni {

// Images per slice: the average layer's task takes about half a millisecond, every core gets a
// slice, and on few cores a larger mini-batch gets four. All slices but the last have one size,
// since each size needs calibration.
int choose_slice(const NetParts& parts, int batch, int cores, bool shared);

// Slices of the rank's share. `alike`: cut as one rank alone would cut the mini-batch.
Result<Slices> share_slices(int batch, int slice, int rank, int ranks, bool alike);

// Sums per gradient. Tasks that add to one sum wait for each other. Two workers seldom compete, and
// with few slices per GPU cores get no tasks, so one sum is enough there.
GradientSums choose_gradient_sums(int slices, int cores, int gpus);
// 1, 2 or 4 sums over the whole mini-batch, each over as many consecutive slices, split among
// ranks. Added up in pairs, they give the same bits on 1, 2 and 4 ranks.
GradientSums fixed_gradient_sums(const Slices& slices);

// Who computes a connected layer: `ranks` of `cores` and `gpus` share the `images` of an update.
// Unlike slices, all of it is the same on every rank.
struct ConnectedShares {
  int inputs = 1, outputs = 1, images = 1;
  int cores = 1, gpus = 0, ranks = 1;
};
// Blocks of neurons, one task per block for all images of the rank. A large layer: with one slice
// per GPU one block per GPU, to fill it; else a constant, since the order of sums, and so the bits,
// depend on it, and ranks that sum gradients need the same.
ConnectedBlocks choose_connected_blocks(const ConnectedShares& of, int slices);
// The same where each rank, or each of the first ones, may compute some of the neurons, for the
// images of all ranks: if activations are less to send than gradients and values of the weights.
ConnectedBlocks divide_neurons(const ConnectedShares& of);
// Ranks add up gradients of so many `values` in pieces of this many; of all parameters they add up
// `all`. A rank owns two pieces, about, unless messages would be too small to be worth their time.
std::size_t piece_values(std::size_t values, std::size_t all, int ranks);

// Ranks form a grid, whose rows have so many. They exchange statistics of batch normalisation with
// their row, then with their column. With rows of one each rank exchanges them with all others at
// once. By the forecast rows pay from 8 ranks over 1 Gbit/s, from 13 over 10.
int ranks_in_a_row(int ranks);

}  // namespace omni
