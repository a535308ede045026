// plan_memory() decides which of a net's tensors lie in the same memory: tensors that are never
// needed at the same time. It decides before anything is allocated, from the lifetimes of the
// tensors.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/tasks/task_capture.hpp"
#include "runtime/tasks/tensor.hpp"
#include "runtime/tasks/tensor_pool.hpp"

namespace omni {

// A PlannedBuffer has one or more lifetimes. A lifetime is from the first task that uses the buffer
// to the last.
struct PlannedBuffer {
  struct Lifetime {
    std::size_t first, last;  // tasks, numbered in the order of submission
  };
  std::size_t bytes = 0;
  int slice = 0;  // only buffers of one slice share, so that slices stay independent
  std::vector<Lifetime> lifetimes;  // ascending
};

// Returns for each buffer the number of the buffer whose memory it uses. Its own number means a
// memory of its own. A memory is at most `most_times` as large as each buffer in it, since
// transfers between devices move the whole memory.
std::vector<std::size_t> plan_memory(std::span<const PlannedBuffer> buffers,
                                     std::size_t most_times);

// Finds transient tensors from the tasks' accesses, and lets them share memory if `share`. `tasks`
// are those of all passes, which may be repeated in any order. A tensor that a pass reads before it
// writes it has memory of its own. So have `kept` tensors, which are also read outside of passes.
void place_tensors(TensorPool& tensors, std::span<const CapturedTask> tasks,
                   std::span<const Tensor* const> kept, bool share);

}  // namespace omni
