// What every number of compute groups would cost and save on this machine: one iteration's tasks
// are measured, then simulated.
#pragma once

#include <optional>
#include <vector>

#include "apps/omni-run/arguments.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/tasks/session.hpp"
#include "scheduling/groups/group_layout.hpp"

namespace omni {

struct GroupPlan {
  struct Row {
    int groups;
    GroupLayout layout{};
    double predicted = 0;              // s per iteration
    std::optional<double> measured{};  // s
    Momentum momentum{};
    double penalty = 1;  // of statistical efficiency
  };
  std::vector<Row> rows;     // for 1, 2, 4 ... groups
  double task_overhead = 0;  // s

  int saturating_groups() const;
};

Result<GroupPlan> plan_groups(const NetSpec& spec, const PlanArguments& arguments,
                              const Session& session, const Dataset& images);

}  // namespace omni
