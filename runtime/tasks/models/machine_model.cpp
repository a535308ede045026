#include "runtime/tasks/models/machine_model.hpp"

#include <starpu.h>
#include <starpu_scheduler.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace omni {

MachineModel MachineModel::of_session() {
  MachineModel machine;
  for (unsigned worker = 0; worker < starpu_worker_get_count(); ++worker) {
    const auto number = static_cast<int>(worker);
    const auto type = starpu_worker_get_type(number);
    const unsigned memory = starpu_worker_get_memory_node(worker);
    auto kind = std::ranges::find_if(machine.kinds, [&](const Kind& each) {
      return each.type == type && each.memory == memory;
    });
    if (kind == machine.kinds.end()) {
      const bool gpu = type == STARPU_CUDA_WORKER;
      machine.kinds.push_back(
          {.type = type,
           .memory = memory,
           .gpu = gpu,
           .at_once = gpu ? starpu_getenv_number_default("STARPU_CUDA_PIPELINE", 2) : 1});
      kind = machine.kinds.end() - 1;
    }
    kind->workers.push_back(number);
  }
  const unsigned memories = starpu_memory_nodes_get_count();
  machine.links.assign(memories, std::vector<Link>(memories));
  for (unsigned from = 0; from < memories; ++from)
    for (unsigned to = 0; to < memories; ++to)
      if (from != to)
        machine.links[from][to] = {1e-6 * starpu_transfer_latency(from, to),
                                   1e-6 / starpu_transfer_bandwidth(from, to)};
  return machine;
}

int MachineModel::workers() const {
  int all = 0;
  for (const Kind& kind : kinds) all += static_cast<int>(kind.workers.size());
  return all;
}

std::vector<double> MachineModel::expected_seconds(starpu_task& task) const {
  std::vector<double> seconds;
  for (const Kind& kind : kinds) {
    double& best = seconds.emplace_back(std::numeric_limits<double>::infinity());
    const auto worker = static_cast<unsigned>(kind.workers.front());
    unsigned able = 0;
    if (starpu_worker_can_execute_task_impl(worker, &task, &able) == 0) continue;
    for (unsigned implementation = 0; able >> implementation != 0; ++implementation) {
      if ((able >> implementation & 1u) == 0) continue;
      const double length =
          starpu_task_worker_expected_length(&task, worker, task.sched_ctx, implementation);
      if (!std::isnan(length)) best = std::min(best, 1e-6 * length);
    }
  }
  return seconds;
}

}  // namespace omni
