#include "runtime/tasks/models/numa.hpp"

#include <starpu.h>

#include <cerrno>
#include <cstring>

#include "runtime/log.hpp"

namespace omni {
namespace {

class Topology {
 public:
  Topology() {
    hwloc_topology_init(&topology_);
    hwloc_topology_load(topology_);
  }
  ~Topology() { hwloc_topology_destroy(topology_); }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;
  hwloc_topology_t get() const { return topology_; }

 private:
  hwloc_topology_t topology_ = nullptr;
};

Bitmap cores_of_workers() {
  Bitmap cores(hwloc_bitmap_alloc());
  for (unsigned worker = 0; worker < starpu_worker_get_count(); ++worker) {
    const Bitmap own(starpu_worker_get_hwloc_cpuset(static_cast<int>(worker)));
    if (own) hwloc_bitmap_or(cores.get(), cores.get(), own.get());
  }
  return cores;
}

}  // namespace

Bitmap nodes_beside(hwloc_topology_t topology, hwloc_const_cpuset_t cores) {
  Bitmap nodes(hwloc_bitmap_alloc());
  hwloc_cpuset_to_nodeset(topology, cores, nodes.get());
  return nodes;
}

bool interleave(hwloc_topology_t topology, const Bitmap& nodes, void* memory, std::size_t bytes) {
  return hwloc_set_area_membind(topology, memory, bytes, nodes.get(), HWLOC_MEMBIND_INTERLEAVE,
                                HWLOC_MEMBIND_BYNODESET) == 0;
}

void spread_over_nodes(void* memory, std::size_t bytes) {
  static const Topology topology;
  if (hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_NUMANODE) < 2) return;
  const Bitmap nodes = nodes_beside(topology.get(), cores_of_workers().get());
  if (hwloc_bitmap_weight(nodes.get()) < 2) return;
  if (!interleave(topology.get(), nodes, memory, bytes))
    log::warn_once(
        "memory cannot be spread over the NUMA nodes: {} (one of them may have to feed all cores; "
        "numactl --interleave=all does it from outside)",
        std::strerror(errno));
}

}  // namespace omni
