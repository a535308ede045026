// This header chooses default sizes: images per slice, partial sums per gradient, and blocks of
// connected layers.
#pragma once

#include "layers/layer_builder.hpp"

namespace omni {

// Returns the number of images per slice. The average layer's task takes about half a millisecond,
// every core gets a slice, and on few cores a larger mini-batch gets four. All slices but the last
// have one size, since StarPU must measure each size.
int choose_slice(const NetParts& parts, int batch, int cores, bool shared);

// RankShares tell how ranks share each mini-batch: in proportion to their weights. Without weights,
// the shares differ by at most one image.
struct RankShares {
  int rank = 0, ranks = 1;
  std::vector<int> weights{};  // by rank; empty: all ranks have the same
  int first_of(int other, int batch) const { return first_of_share(other, ranks, batch, weights); }
  int images_of(int other, int batch) const {
    return first_of(other + 1, batch) - first_of(other, batch);
  }
};
// Returns the slices of the rank's share of a mini-batch. `slices` has the images of a slice, by
// rank, or for all ranks. `alike` means that they are cut as a single rank would cut the whole
// mini-batch. Each rank then has whole leaves of the tree of sums (fixed_gradient_sums()), so
// shares may differ by more than one image.
Result<Slices> share_slices(int batch, const std::vector<int>& slices, const RankShares& shares,
                            bool alike);

// Chooses the number of partial sums per gradient. Tasks that add to one sum wait for each other.
// Two workers seldom compete, and with few slices per GPU cores get no tasks. In both cases one sum
// is enough.
GradientSums choose_gradient_sums(int slices, int cores, int gpus);
// Makes partial sums that are leaves of one tree of sums (codelets/elementwise/sum_tree.hpp) over
// the whole mini-batch. A leaf is a slice, or some consecutive slices if there are more than
// kMostLeaves. The tree depends on the number of all slices only, so gradients have the same bits
// on any number of ranks.
inline constexpr int kMostLeaves = 64;
GradientSums fixed_gradient_sums(const Slices& slices);

// ConnectedShares tells which devices compute a connected layer. `ranks` ranks, with `cores` and
// `gpus` each, share the `images` of an update. Unlike slices, these numbers are the same on every
// rank.
struct ConnectedShares {
  int inputs = 1, outputs = 1, images = 1;
  int cores = 1, gpus = 0, ranks = 1;
};
// Chooses blocks of neurons, with one task per block for all images of the rank. A small layer is
// one block. On one rank with one slice per GPU, a large layer has one block per GPU, which uses
// the whole GPU. Otherwise the number of blocks of a large layer is constant. The order of sums
// depends on that number, and ranks that sum gradients need the same blocks.
ConnectedBlocks choose_connected_blocks(const ConnectedShares& of, int slices);
// Chooses blocks of neurons so that each rank, or each of the first ranks, may compute some neurons
// for the images of all ranks. It does so if sending activations takes fewer bytes than sending
// gradients and values of the weights.
ConnectedBlocks divide_neurons(const ConnectedShares& of);
// Returns the number of values of each piece in which ranks add up a gradient of `values` values.
// `all` is the number of values of all parameters. A rank owns about two pieces, unless messages
// would be so small that their fixed cost dominates.
std::size_t piece_values(std::size_t values, std::size_t all, int ranks);

// Returns the length of a row if ranks form a grid. Ranks exchange statistics of batch
// normalisation with their row, then with their column. If the length is 1, each rank exchanges
// them with all others at once. By the forecast, rows are faster from 8 ranks over 1 Gbit/s, and
// from 13 over 10 Gbit/s.
int ranks_in_a_row(int ranks);

}  // namespace omni
