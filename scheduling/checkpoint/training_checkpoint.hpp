// What a checkpoint of a training contains, and how it goes back into a net.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "layers/net.hpp"
#include "scheduling/checkpoint/checkpoint_store.hpp"
#include "scheduling/training/training_state.hpp"

namespace omni {

// Identifies the layers of a description, whatever its comments and [net] values.
std::string layers_hash(const NetDescription& net);

// What a resumed run must have in common with its checkpoint.
struct RunIdentity {
  std::string layers;                      // layers_hash()
  std::string data;                        // DatasetPair::name
  std::vector<std::string> class_names{};  // of each output; none: not known
  std::uint64_t iterations = 0;            // length of the training; 0: no end
};

// All updates must be done. Returns the new checkpoint's folder. The first rank writes; meanwhile
// the others must call bring_arrays().
Result<std::filesystem::path> save_training(CheckpointStore& store, ComputeGroups& groups,
                                            const TrainingState& state,
                                            const RunIdentity& identity);
void bring_arrays(ComputeGroups& groups);

// Refuses a checkpoint that was trained on other data.
Status require_same_data(const Checkpoint& checkpoint, const std::string& data);

// Loads arrays only: parameters, and for training the optimizer state. Refuses a checkpoint of
// other layers.
Status restore_parameters(Net& net, const Checkpoint& checkpoint);

// Of each output; none: not known.
std::vector<std::string> saved_class_names(const Checkpoint& checkpoint);
// Where parameters do not fit because they are of another number of classes, the hint says that.
Status with_classes(Status loaded, const std::vector<std::string>& names, const Net& net);

// How long the training was to be; 0: no end, or not known.
std::uint64_t saved_length(const Checkpoint& checkpoint);

// How many compute groups trained it last.
Result<int> saved_groups(const Checkpoint& checkpoint);

// Loads parameters, optimizer state, replicas and the state of the training. Refuses parameters of
// other shapes and a checkpoint of the other solver; warns if the layers are described differently.
// After another strategy (StrategyState::name) or with another number of groups, all groups start
// from the masters.
Result<TrainingState> restore_training(ComputeGroups& groups, const Checkpoint& checkpoint,
                                       const std::string& hash, std::string_view strategy);

}  // namespace omni
