// How a mini-batch is cut where nobody says it.
#pragma once

#include "layers/layer_builder.hpp"

namespace omni {

// Images per slice: a power of two (so that few sizes need calibrating) that gives the
// average layer a task of about a millisecond; fewer, so that every core has a slice, and a few
// more where that leaves a rest.
int choose_slice(const NetParts& parts, int batch, int cores);

// Tasks that add to the same sum take turns, and on a core one takes long. But two workers seldom
// meet at one of many layers, and with hardly more slices than GPUs cores have nothing to do.
int choose_gradient_sums(int slices, int cores, int gpus);

}  // namespace omni
