// Which tensors are transient, and lets those share memory, by what tasks would do with them.
#pragma once

#include <span>

#include "runtime/tasks/task_capture.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {

// `tasks`: all that will ever be submitted, in any order of whole walks, but for tasks on tensors
// that are read before they are written: those remember something, and keep their memory. So do
// `kept`, which somebody else reads.
void place_tensors(TensorPool& tensors, std::span<const CapturedTask> tasks,
                   std::span<const Tensor* const> kept, bool share);

}  // namespace omni
