// Where the pages of tensors lie on machines with several NUMA nodes. Any worker may get any slice,
// so no node is nearer to a tensor than the others; but pages lie beside the thread that touches
// them first, and that one node would have to feed all cores.
#pragma once

#include <hwloc.h>

#include <cstddef>
#include <memory>

namespace omni {

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

// The NUMA nodes beside these cores; of several beside one core the first, which is plain memory.
Bitmap nodes_beside(hwloc_topology_t topology, hwloc_const_cpuset_t cores);

// Pages that nobody has touched yet will lie on the nodes in turn. False: the system refuses.
bool interleave(hwloc_topology_t topology, const Bitmap& nodes, void* memory, std::size_t bytes);

// Over the nodes beside StarPU's workers, where these are more than one. Not for memory that a GPU
// driver has pinned where it was, nor for a few pages.
void spread_over_nodes(void* memory, std::size_t bytes);

}  // namespace omni
