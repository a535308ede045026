#include "runtime/tasks/models/machine_model.hpp"

#include <starpu.h>
#include <starpu_scheduler.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/log.hpp"

namespace omni {
namespace {

#ifdef STARPU_HAVE_HWLOC
constexpr std::size_t kFewPages = 1 << 16;  // bytes

Bitmap cores_of_workers() {
  Bitmap cores(hwloc_bitmap_alloc());
  for (unsigned worker = 0; worker < starpu_worker_get_count(); ++worker) {
    const Bitmap own(starpu_worker_get_hwloc_cpuset(static_cast<int>(worker)));
    if (own) hwloc_bitmap_or(cores.get(), cores.get(), own.get());
  }
  return cores;
}
#endif

}  // namespace

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

Bitmap nodes_beside(hwloc_topology_t topology, hwloc_const_cpuset_t cores) {
  Bitmap nodes(hwloc_bitmap_alloc());
  const Bitmap left(hwloc_bitmap_dup(cores));
  const int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
  for (int i = 0; i < count; ++i) {
    const hwloc_obj_t node =
        hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(i));
    if (!hwloc_bitmap_intersects(left.get(), node->cpuset)) continue;
    hwloc_bitmap_set(nodes.get(), node->os_index);
    hwloc_bitmap_andnot(left.get(), left.get(), node->cpuset);
  }
  return nodes;
}

bool interleave(hwloc_topology_t topology, const Bitmap& nodes, void* memory, std::size_t bytes) {
  return hwloc_set_area_membind(topology, memory, bytes, nodes.get(), HWLOC_MEMBIND_INTERLEAVE,
                                HWLOC_MEMBIND_BYNODESET) == 0;
}

#ifdef STARPU_HAVE_HWLOC
void spread_over_nodes(void* memory, std::size_t bytes) {
  const hwloc_topology_t topology = starpu_get_hwloc_topology();
  if (topology == nullptr || bytes <= kFewPages || starpu_cuda_worker_get_count() > 0 ||
      hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE) < 2)
    return;
  const Bitmap nodes = nodes_beside(topology, cores_of_workers().get());
  if (hwloc_bitmap_weight(nodes.get()) < 2 || interleave(topology, nodes, memory, bytes)) return;
  log::warn_once(
      "memory cannot be interleaved over the NUMA nodes: {} (one node may feed all cores; start "
      "with numactl --interleave=all)",
      std::strerror(errno));
}
#else  // the workers are simulated and have no place
void spread_over_nodes(void*, std::size_t) {}
#endif

}  // namespace omni
