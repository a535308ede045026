// These functions save a training as a checkpoint and restore it into compute groups and nets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "layers/net.hpp"
#include "scheduling/checkpoint/checkpoint_store.hpp"
#include "scheduling/training/training_state.hpp"

namespace omni {

// Returns a hash of the layers of a net description. Comments and values of [net] have no effect on
// it.
std::string layers_hash(const NetDescription& net);

// A RunIdentity has the properties of a run that its checkpoints save, to compare them when a run
// resumes.
struct RunIdentity {
  std::string layers;                        // layers_hash()
  std::string data;                          // DatasetPair::name
  std::vector<std::string> class_names{};    // by output; empty: not known
  std::uint64_t iterations = 0;              // length of the training; 0: no end
  std::optional<std::uint64_t> data_seed{};  // TrainingPlan::data_seed
  // Weights of ranks that are given or measured, as "2:1" or "equal", and the ranks' nodes with
  // their workers and GPUs. "": ranks are alike.
  std::string rank_shares{}, rank_nodes{};
};

// Saves a training, all of whose updates must be done, and returns the new checkpoint's folder.
// Only the first rank calls save_training(). All other ranks must call bring_arrays() at the same
// time.
Result<std::filesystem::path> save_training(CheckpointStore& store, ComputeGroups& groups,
                                            const TrainingState& state,
                                            const RunIdentity& identity);
void bring_arrays(ComputeGroups& groups);

// Returns an error if the checkpoint was trained on other data. Warns if its data are not known.
Status require_same_data(const Checkpoint& checkpoint, const std::string& data);

// Loads the parameters into the net; a net for training also gets the optimizer state. Refuses a
// checkpoint whose arrays do not fit the net.
Status restore_parameters(Net& net, const Checkpoint& checkpoint);

// Writes the parameters of a net without optimizer state into a .safetensors file, as
// restore_parameters() reads them.
Status save_parameters(Net& net, const std::filesystem::path& path);

// Returns the class name of each output; an empty list if the checkpoint has no names.
std::vector<std::string> saved_class_names(const Checkpoint& checkpoint);
// Returns `loaded`, with a hint if parameters did not fit because the number of classes differs.
Status with_classes(Status loaded, const std::vector<std::string>& names, const Net& net);

// Returns RunIdentity::data_seed of the saved training.
Result<std::optional<std::uint64_t>> saved_data_seed(const Checkpoint& checkpoint);

// Returns the planned length of the training in iterations; 0: no end, or not known.
std::uint64_t saved_length(const Checkpoint& checkpoint);

// Returns the number of compute groups in use when the checkpoint was saved.
Result<int> saved_groups(const Checkpoint& checkpoint);

// Loads parameters, optimizer state, replicas and the state of the training, with the states that
// pilots keep. Refuses parameters of other shapes, another solver and another batch. Warns if
// `hash`, a layers_hash(), differs. After another strategy (StrategyState::name) or with another
// number of groups, all groups start from the masters.
Result<TrainingState> restore_training(ComputeGroups& groups, const Checkpoint& checkpoint,
                                       const std::string& hash, std::string_view strategy);

}  // namespace omni
