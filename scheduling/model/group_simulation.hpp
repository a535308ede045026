// Compute groups in simulated time: the tasks of one iteration, measured once, list-scheduled for
// any number of groups and workers by the rules of the trainer (GroupRun), of StarPU (accesses in
// submission order; accumulations in any order, one at a time) and of the policy (priorities).
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/tasks/access.hpp"
#include "scheduling/groups/group_layout.hpp"

namespace omni {

// One mini-batch of one group, in submission order.
struct IterationTask {
  // Whose copy of the data: every group has its own, all have the same, or every mini-batch.
  enum class Owner { group, all, batch };
  struct Use {
    std::uint32_t data;
    AccessMode mode;
    Owner owner;
  };
  // Ahead of the mini-batch; before the merged phase; from its first task on.
  enum class Stage { decode, begin, complete };
  double seconds = 0;
  int priority = 0;
  Stage stage = Stage::begin;
  bool any_worker = false;  // else one of its group's
  bool gate = false;        // the merged phase starts when all of these are done
  bool update = false;      // the iteration is finished when all of these are done
  std::vector<Use> uses;
};

struct SimulationOptions {
  int workers = 1;
  GroupLayout layout;        // by group
  bool in_turn = false;      // see Trainer
  int iterations = 200;      // the first third is not counted
  double task_overhead = 0;  // s of a worker's time per task
};

struct SimulatedRun {
  double seconds_per_iteration = 0;
  double busy = 0;  // share of the workers' time that tasks took, overhead included
};

// The iteration has gates and updates.
SimulatedRun simulate_groups(const std::vector<IterationTask>& iteration,
                             const SimulationOptions& options);

}  // namespace omni
