// The state of a training as arrays by name: contents of checkpoints. And a copy of it in memory,
// from which trials start and to which they are rolled back.
#pragma once

#include <fmt/format.h>

#include <vector>

#include "runtime/communicator/ranks.hpp"
#include "scheduling/training/training_state.hpp"

namespace omni {

// The arrays that all groups share. If groups have models of their own, the optimizer state is that
// of the first group.
void for_each_array(Net& net, auto visit) {
  for (const Param* param : net.params()) {
    visit("param/" + param->name, *param, *param->master);
    if (param->velocity != nullptr) visit("velocity/" + param->name, *param, *param->velocity);
    if (param->mean_square != nullptr)
      visit("mean_square/" + param->name, *param, *param->mean_square);
  }
}

// Further arrays of one group between two iterations.
template <class Visit>
void for_each_of_group(Net& net, int group, Visit& visit) {
  for (const Param* param : net.params()) {
    if (param->replica == nullptr) continue;
    visit(fmt::format("group{}/{}", group, param->name), *param, *param->replica);
    if (param->change == nullptr || group == 0) continue;
    visit(fmt::format("group{}/velocity/{}", group, param->name), *param, *param->velocity);
    if (param->mean_square != nullptr)
      visit(fmt::format("group{}/mean_square/{}", group, param->name), *param, *param->mean_square);
  }
}

// All of these, for the groups of this rank that are in use, and the arrays of meetings. With
// several ranks, the first one has all contributions.
void for_each_replica(ComputeGroups& groups, auto visit) {
  for (const int group : groups.here()) for_each_of_group(groups.net(group), group, visit);
  for (const Param* param : groups.net().params()) {
    if (param->replica == nullptr || param->change == nullptr) continue;
    if (ranks::first()) visit("change/" + param->name, *param, *param->change);
    visit("centre_velocity/" + param->name, *param, *param->centre_velocity);
  }
}

class TrainingSnapshot {
 public:
  // No task may be under way, here and in restore().
  void take(ComputeGroups& groups, const TrainingState& state, bool with_replicas = true);
  // Without replicas, or with another number of groups than was taken, all start from the masters.
  void restore(ComputeGroups& groups) const;

  const TrainingState& state() const { return state_; }
  // The memory of one snapshot, if all groups are in use.
  static std::size_t bytes(ComputeGroups& groups, bool with_replicas = true);

 private:
  TrainingState state_;
  std::vector<std::vector<float>> arrays_, replicas_;  // in the order of the visits
  int groups_ = 0;
};

}  // namespace omni
