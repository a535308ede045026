// The state of a training as arrays by name: contents of checkpoints and snapshots.
#pragma once

#include <fmt/format.h>

#include "runtime/communicator/ranks.hpp"
#include "scheduling/groups/compute_groups.hpp"

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

// Arrays of meetings. With several ranks, the first one has all contributions.
template <class Visit>
void for_each_of_meetings(Net& net, Visit& visit) {
  for (const Param* param : net.params()) {
    if (param->replica == nullptr || param->change == nullptr) continue;
    if (ranks::first()) visit("change/" + param->name, *param, *param->change);
    visit("centre_velocity/" + param->name, *param, *param->centre_velocity);
  }
}

// All of these, for the groups of this rank that are in use.
template <class Visit>
void for_each_replica(ComputeGroups& groups, Visit visit) {
  for (const int group : groups.here()) for_each_of_group(groups.net(group), group, visit);
  for_each_of_meetings(groups.net(), visit);
}

}  // namespace omni
