// The task graph of one iteration of a compute group, with the lengths of its tasks, from what a
// training submitted and measured.
#pragma once

#include <vector>

#include "layers/net.hpp"
#include "runtime/tasks/task_capture.hpp"
#include "runtime/tasks/task_times.hpp"
#include "scheduling/model/group_simulation.hpp"

namespace omni {

// `captured`: iterations of several groups in turn; data that several groups use belong to the
// masters. The result is an iteration of the first group, which has this net, with mean lengths by
// kind of worker.
Result<std::vector<IterationTask>> iteration_graph(const std::vector<CapturedTask>& captured,
                                                   const std::vector<TaskTime>& times,
                                                   const MachineModel& machine, const Net& net);

// Work of one iteration, each task at its shortest length; without decoding, which is ahead of it.
struct IterationWork {
  double groups = 0, merged = 0;  // s, of tasks; exchanges of merged parameters are merged work
  double exchanges = 0;           // s, between the groups and the masters
};
IterationWork work_of(const std::vector<IterationTask>& iteration);

}  // namespace omni
