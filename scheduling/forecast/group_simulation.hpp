// Simulates compute groups: the tasks of one iteration, with known lengths, on any machine and in
// any number of groups. It follows the rules of the trainer (GroupRun), of StarPU (accesses in
// submission order; accumulations in any order, one at a time; transfers) and of the policy
// (Dispatcher).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/tasks/access.hpp"
#include "runtime/tasks/models/machine_model.hpp"
#include "scheduling/groups/group_layout.hpp"

namespace omni {

// One mini-batch of one group, in submission order.
struct IterationTask {
  // Scope of the data: one copy per group, one for all, or one per mini-batch.
  enum class Owner { group, all, batch };
  struct Use {
    std::uint32_t data;
    AccessMode mode;
    Owner owner;
    std::size_t bytes = 0;
  };
  // decode: before the mini-batch; begin: before the merged phase; complete: from there on.
  enum class Stage { decode, begin, complete };
  std::uintptr_t codelet = 0;   // which one
  std::vector<double> seconds;  // by kind of worker; infinite: it cannot run there
  int priority = 0;
  Stage stage = Stage::begin;
  bool any_worker = false;  // else one of its group's
  bool gate = false;        // the merged phase starts when all of these are done
  bool update = false;      // the iteration is finished when all of these are done
  std::vector<Use> uses;
};

struct SimulationOptions {
  MachineModel machine;
  GroupLayout layout;        // by group
  bool in_turn = false;      // see Trainer
  int iterations = 200;      // those while groups start are not counted
  double task_overhead = 0;  // s from taking a task to its start, which a task before it hides
  double jitter = 0;         // a task takes longer or less long by at most this part, by chance
  unsigned seed = 1;         // of the chance
};

// Seconds per iteration. `iteration` must hold the tasks of gates and updates, too.
double simulate_groups(const std::vector<IterationTask>& iteration,
                       const SimulationOptions& options);

}  // namespace omni
