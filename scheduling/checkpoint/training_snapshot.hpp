// These visitors name the arrays of a training's state as checkpoints do. A TrainingSnapshot is a
// copy of the state in memory, which pilots restore.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/communicator/ranks.hpp"
#include "scheduling/training/training_state.hpp"

namespace omni {

// Visits the arrays that all groups share. If groups have models of their own, the optimizer state
// of the first group is visited.
void for_each_array(Net& net, auto visit) {
  for (const Param* param : net.params()) {
    visit("param/" + param->name, *param, *param->master);
    if (param->velocity != nullptr) visit("velocity/" + param->name, *param, *param->velocity);
    if (param->mean_square != nullptr)
      visit("mean_square/" + param->name, *param, *param->mean_square);
  }
}

// Visits the arrays that one group does not share with other groups.
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

// Visits the replicas of all groups in use on this rank, and the arrays for meetings, in which
// models are averaged. Only the first rank visits the contributions, which RankSums gathers there.
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
  TrainingSnapshot() = default;
  // Makes a snapshot of the arrays that visit_shared() visits.
  TrainingSnapshot(TrainingState state, std::vector<std::vector<float>> arrays)
      : state_(std::move(state)), arrays_(std::move(arrays)) {}

  // Copies the training's state, except TrainingState::kept. No task may be under way during take()
  // and restore().
  void take(ComputeGroups& groups, const TrainingState& state, bool with_replicas = true);
  // Restores parameters and optimizer state. If the snapshot has no replicas, or another number of
  // groups, all groups start from the masters.
  void restore(ComputeGroups& groups) const;

  void drop_replicas() { replicas_.clear(), groups_ = 0; }

  // Calls visit(name, param, values) for each array that all groups share.
  void visit_shared(Net& net, auto visit) const {
    std::size_t next = 0;
    for_each_array(net, [&](const std::string& name, const Param& param, const Tensor&) {
      visit(name, param, arrays_[next++]);
    });
  }
  const TrainingState& state() const { return state_; }
  // Returns the bytes of a snapshot of the groups in use, those on other ranks included.
  static std::size_t bytes(ComputeGroups& groups, bool with_replicas = true);

 private:
  TrainingState state_;
  std::vector<std::vector<float>> arrays_, replicas_;  // in the order in which they are visited
  int groups_ = 0;  // whose replicas are in the snapshot; 0: there are no replicas
};

}  // namespace omni
