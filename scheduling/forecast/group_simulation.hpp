// simulate_groups() simulates compute groups: the tasks of one iteration, with known lengths, on
// any machine and in any number of groups. It follows the rules of the trainer (GroupRun), of
// StarPU and of the policy (Dispatcher). By StarPU's rules, tasks access data in submission order.
// They accumulate in any order, one at a time, and transfer data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/tasks/access.hpp"
#include "runtime/tasks/models/machine_model.hpp"
#include "scheduling/groups/group_layout.hpp"

namespace omni {

// An IterationTask is a task of an iteration. An iteration is one mini-batch of one group. Tasks
// are in submission order.
struct IterationTask {
  // An Owner tells how many copies of the data there are: one per group, one for all, or one per
  // mini-batch.
  enum class Owner { group, all, batch };
  struct Use {
    std::uint32_t data;
    AccessMode mode;
    Owner owner;
    std::size_t bytes = 0;
  };
  // A task of stage `decode` runs before its mini-batch, and one of stage `begin` before the merged
  // phase. All later tasks have the stage `complete`.
  enum class Stage { decode, begin, complete };
  std::uintptr_t codelet = 0;   // any number that differs between codelets
  std::vector<double> seconds;  // by kind of worker; infinite: it cannot run there
  int priority = 0;
  Stage stage = Stage::begin;
  bool any_worker = false;  // false: only workers of its group run it
  bool gate = false;        // the merged phase starts when all tasks with `gate` are done
  bool update = false;      // the iteration is finished when all tasks with `update` are done
  std::vector<Use> uses;
};

struct SimulationOptions {
  MachineModel machine;
  GroupLayout layout;        // by group
  bool in_turn = false;      // true: groups begin in turn, and updates happen in that order
  int iterations = 200;      // simulated; not all are counted (steady_seconds())
  double task_overhead = 0;  // s from taking a task to its start; a running task hides it
  double jitter = 0;         // the largest random variation of a task's length, as a share
  unsigned seed = 1;         // of the random variation
};

// Returns seconds per iteration. `iteration` must also have tasks with `gate` and with `update`.
double simulate_groups(const std::vector<IterationTask>& iteration,
                       const SimulationOptions& options);

}  // namespace omni
