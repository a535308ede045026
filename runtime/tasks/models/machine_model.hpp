// What StarPU knows of the machine: the workers, the links between their memories, and how long
// each kind of worker would take for a task.
#pragma once

#include <hwloc.h>

#include <cstddef>
#include <memory>
#include <vector>

struct starpu_task;

namespace omni {

struct MachineModel {
  // Workers that are equals: of one type, beside one memory.
  struct Kind {
    unsigned type = 0, memory = 0;
    bool gpu = false;
    int at_once = 1;  // tasks that one worker takes: all but the first wait for it
    std::vector<int> workers{};
  };
  struct Link {
    double latency = 0;           // s
    double seconds_per_byte = 0;  // 0 within a memory
  };
  std::vector<Kind> kinds;
  std::vector<std::vector<Link>> links;  // from, to

  // Describes this machine; needs a running Session.
  static MachineModel of_session();

  int workers() const;
  // Predicted seconds of the fastest implementation on each kind of worker; infinite: unknown.
  std::vector<double> expected_seconds(starpu_task& task) const;
};

// ---- placement of tensors' pages on machines with several NUMA nodes. Any worker may compute any
// slice, so pages are interleaved. By default they would lie on the node of the thread that first
// touches them, and that node would feed all cores. ----

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
