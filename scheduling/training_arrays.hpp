// The state of a training as arrays by name: contents of checkpoints and snapshots.
#pragma once

#include <fmt/format.h>

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

// Further arrays between two iterations: those of each group in use, and those of meetings.
void for_each_replica(ComputeGroups& groups, auto visit) {
  for (int group = 0; group < groups.count(); ++group)
    for (const Param* param : groups.net(group).params()) {
      if (param->replica == nullptr) continue;
      visit(fmt::format("group{}/{}", group, param->name), *param, *param->replica);
      if (param->change == nullptr) continue;
      if (group == 0) {
        visit("change/" + param->name, *param, *param->change);
        visit("centre_velocity/" + param->name, *param, *param->centre_velocity);
        continue;
      }
      visit(fmt::format("group{}/velocity/{}", group, param->name), *param, *param->velocity);
      if (param->mean_square != nullptr)
        visit(fmt::format("group{}/mean_square/{}", group, param->name), *param,
              *param->mean_square);
    }
}

}  // namespace omni
