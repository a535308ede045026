// These functions save and restore the earlier states of a training that pilots keep
// (Pilot::kept()). Their arrays are called kept/PILOT/NUMBER/..., as those of the training are
// called. The field kept_PILOT lists four numbers of each state.
#pragma once

#include "layers/net.hpp"
#include "scheduling/checkpoint/checkpoint_folder.hpp"
#include "scheduling/training/training_state.hpp"

namespace omni {

// Adds TrainingState::kept to a checkpoint. Its arrays must live until the checkpoint is saved.
void save_kept(Snapshot& snapshot, Net& net, const TrainingState& state);

// Restores TrainingState::kept; refuses missing arrays and impossible numbers.
Status restore_kept(const Checkpoint& checkpoint, Net& net, TrainingState& state);

}  // namespace omni
