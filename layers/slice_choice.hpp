// How a mini-batch is cut where nobody says it.
#pragma once

#include "layers/layer_builder.hpp"

namespace omni {

// Images per slice: about as many as give the average layer a task of half a millisecond; fewer, so
// that every core has a slice, and where cores are few, four of larger mini-batches; cut so that
// all slices but the last are of one size, since each size needs calibrating.
int choose_slice(const NetParts& parts, int batch, int cores);

// Tasks that add to the same sum take turns, and on a core one takes long. But two workers seldom
// meet at one of many layers, and with hardly more slices than GPUs cores have nothing to do.
int choose_gradient_sums(int slices, int cores, int gpus);

// A large connected layer takes all images at once, so many blocks of neurons apart. Where GPUs
// have a slice each, one block each: less would not fill them. Else a number that does not depend
// on the machine, as sums do on the blocks.
int choose_connected_blocks(int slices, int gpus);

}  // namespace omni
