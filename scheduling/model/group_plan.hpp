// What every number of compute groups is predicted to cost and to save on this machine, and which
// of them is best.
#pragma once

#include <optional>
#include <vector>

#include "scheduling/groups/group_layout.hpp"
#include "scheduling/groups/momentum.hpp"
#include "scheduling/model/iteration_graph.hpp"

namespace omni {

struct GroupPlan {
  struct Row {
    int groups;
    int images_per_slice = 0;
    GroupLayout layout{};
    double predicted = 0;            // s per iteration
    double task_overhead = 0;        // s, in that prediction
    IterationWork work{};            // that it is made of, measured
    std::vector<double> measured{};  // s, in every round, see plan_groups()
    Momentum momentum{};
    double penalty = 1;  // of statistical efficiency: updates needed, relative to one group
    std::optional<double> penalty_error{};  // where it was measured; else it is the theory's

    // Of a training, in relation to other rows.
    double total() const { return predicted * penalty; }
    std::optional<double> median_measured() const;
  };
  std::vector<Row> rows;  // by planned_groups()

  int saturating_groups() const;
  // The smallest total; of those that are as good, the fewest groups, whose updates learn most. As
  // good is what measured penalties cannot tell apart. Where one is the theory's: within 1.3.
  const Row& best() const;
};

// Those that are worth a look: 1, 2, 4 ... and the most.
std::vector<int> planned_groups(int most);

}  // namespace omni
