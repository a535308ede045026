// Which of a net's tensors may lie in the same memory: those that are never needed at the same
// time. Worked out before anything is allocated, from when each is needed.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/tasks/task_capture.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {

// Something that needs memory from the first to the last task that uses it; it may do so again.
struct PlannedBuffer {
  struct Lifetime {
    std::size_t first, last;  // tasks, numbered in the order of submission
  };
  std::size_t bytes = 0;
  int slice = 0;  // only buffers of one slice share, so that slices stay independent
  std::vector<Lifetime> lifetimes;  // ascending
};

// By buffer: the one in whose memory it lies; itself, if it has its own. That of another is as
// large or larger, up to `most_times` its size: between devices the whole memory moves.
std::vector<std::size_t> plan_memory(std::span<const PlannedBuffer> buffers,
                                     std::size_t most_times);

// Which tensors are transient, and lets those share memory, by what tasks would do with them.
// `tasks`: all that will ever be submitted, in any order of whole walks, but for tasks on tensors
// that are read before they are written: those remember something, and keep their memory. So do
// `kept`, which somebody else reads.
void place_tensors(TensorPool& tensors, std::span<const CapturedTask> tasks,
                   std::span<const Tensor* const> kept, bool share);

}  // namespace omni
