// Placement of tensors' pages on machines with several NUMA nodes. Any worker may compute any
// slice, so pages are interleaved. By default they would lie on the node of the thread that first
// touches them, and that node would feed all cores.
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

// Interleaves pages that were not touched yet over the nodes. False: the system refuses.
bool interleave(hwloc_topology_t topology, const Bitmap& nodes, void* memory, std::size_t bytes);

// Interleaves memory over the nodes of StarPU's workers, if there are several. Not for memory that
// a GPU driver has pinned, nor for a few pages.
void spread_over_nodes(void* memory, std::size_t bytes);

}  // namespace omni
