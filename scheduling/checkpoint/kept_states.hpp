// These functions save and restore the earlier states of a training that pilots keep
// (Pilot::kept()). Their arrays have the names of the training's arrays, after the prefix
// kept/PILOT/NUMBER/. The field kept_PILOT lists four numbers of each state.
#pragma once

#include "layers/net.hpp"
#include "scheduling/checkpoint/checkpoint_folder.hpp"
#include "scheduling/training/training_state.hpp"

namespace omni {

// Adds TrainingState::kept to a checkpoint. The arrays of `state` must live until the checkpoint is
// saved.
void save_kept(Snapshot& snapshot, Net& net, const TrainingState& state);

// Restores TrainingState::kept from a checkpoint. Refuses missing arrays and impossible numbers.
Status restore_kept(const Checkpoint& checkpoint, Net& net, TrainingState& state);

}  // namespace omni
