// starting_point() fills the parameters of a training: from a checkpoint, a snapshot, the file of
// --weights, or the seed.
#pragma once

#include "apps/omni-run/training/train_inputs.hpp"

namespace omni {

// Returns the state from which the training goes on. All ranks call this function.
Result<TrainingState> starting_point(const TrainInputs& inputs, Training& training);

}  // namespace omni
