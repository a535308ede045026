// How a mini-batch is cut where nobody says it.
#pragma once

#include "layers/layer_builder.hpp"

namespace omni {

// Images per slice: about as many as give the average layer a task of half a millisecond; fewer, so
// that every core has a slice, and where cores are few, four of larger mini-batches; cut so that
// all slices but the last are of one size, since each size needs calibrating.
int choose_slice(const NetParts& parts, int batch, int cores);

// Of the rank's share. `alike`: the slices must be those of one rank.
Result<Slices> share_slices(int batch, int slice, int rank, int ranks, bool alike);

// Tasks that add to the same sum take turns, and on a core one takes long. But two workers seldom
// meet at one of many layers, and with hardly more slices than GPUs cores have nothing to do.
GradientSums choose_gradient_sums(int slices, int cores, int gpus);
// 1, 2 or 4 sums of the whole mini-batch, each of as many slices that follow each other; a rank has
// its share of them. Added up in pairs, they give the same bits on 1, 2 and 4 ranks.
GradientSums fixed_gradient_sums(const Slices& slices);

// A large connected layer takes all images at once, so many blocks of neurons apart. Where GPUs
// have a slice each, one block each: less would not fill them. Else a number that does not depend
// on the machine, as sums do on the blocks.
int choose_connected_blocks(int slices, int gpus);

}  // namespace omni
