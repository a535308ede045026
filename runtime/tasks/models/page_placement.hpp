// This header places the pages of tensors on machines with several NUMA nodes. Any worker may
// compute any slice, so pages are interleaved over the nodes. By default all would lie on the node
// of the thread that first touches them, and that node would feed all cores.
#pragma once

#include <hwloc.h>

#include <cstddef>
#include <memory>

namespace omni {

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

// Returns the NUMA nodes beside these cores. Of several beside one core it returns the first, which
// is plain memory.
Bitmap nodes_beside(hwloc_topology_t topology, hwloc_const_cpuset_t cores);

// Interleaves pages that were not touched yet over the nodes. Returns false if the system refuses.
bool interleave(hwloc_topology_t topology, const Bitmap& nodes, void* memory, std::size_t bytes);

// Interleaves memory over the NUMA nodes of StarPU's workers, if there are several. Does nothing if
// there are GPUs, whose driver has pinned the memory, nor for a few pages.
void spread_over_nodes(void* memory, std::size_t bytes);

}  // namespace omni
