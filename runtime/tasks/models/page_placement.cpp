#include "runtime/tasks/models/page_placement.hpp"

#include <starpu.h>

#include <cerrno>
#include <cstring>

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
