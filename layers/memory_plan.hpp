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

// A PlannedBuffer has lifetimes: from the first task that uses it to the last, maybe several times.
struct PlannedBuffer {
  struct Lifetime {
    std::size_t first, last;  // tasks, numbered in the order of submission
  };
  std::size_t bytes = 0;
  int slice = 0;  // only buffers of one slice share, so that slices stay independent
  std::vector<Lifetime> lifetimes;  // ascending
};

// Returns for each buffer the number of the buffer whose memory it uses; its own number means a
// memory of its own. That memory has 1 to `most_times` times its size, since transfers between
// devices move the whole memory.
std::vector<std::size_t> plan_memory(std::span<const PlannedBuffer> buffers,
                                     std::size_t most_times);

// Finds transient tensors by the tasks' accesses, and lets them share memory. `tasks` are those of
// all passes, which may be repeated in any order. A tensor that a pass reads before it writes it
// keeps memory of its own; so do `kept` tensors, which are read elsewhere.
void place_tensors(TensorPool& tensors, std::span<const CapturedTask> tasks,
                   std::span<const Tensor* const> kept, bool share);

}  // namespace omni
