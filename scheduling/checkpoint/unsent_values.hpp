// These functions save and restore what coded messages between ranks have left out so far
// (RankSums::unsent()). Each rank has values of its own, and contributions to the next meeting.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "scheduling/checkpoint/checkpoint_folder.hpp"
#include "scheduling/groups/compute_groups.hpp"

namespace omni {

// Adds this rank's values to the snapshot. Returns them; they must outlive the snapshot.
[[nodiscard]] std::vector<float> save_unsent(Snapshot& snapshot, ComputeGroups& groups);
// Calls fetch_later() for each array that other ranks bring with bring_unsent().
using FetchLater = std::function<void(std::string name, std::vector<std::int64_t> shape, int rank,
                                      std::size_t count)>;
void fetch_unsent(ComputeGroups& groups, const FetchLater& fetch_later);
void bring_unsent(ComputeGroups& groups);
// Restores these values if the checkpoint is of as many ranks. Otherwise nothing is unsent; only
// contributions to the next meeting are added up. Collective.
Status restore_unsent(ComputeGroups& groups, const Checkpoint& checkpoint);

}  // namespace omni
