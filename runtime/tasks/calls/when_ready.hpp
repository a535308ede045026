// when_ready() calls a function when the tasks that write certain tensors are done.
#pragma once

#include <functional>
#include <span>

#include "runtime/tasks/access.hpp"

namespace omni {

// Calls `then` once all tasks are done that were submitted before and write these tensors. The call
// comes in a worker's thread, or at once in the calling one. `then` must not wait. The data stay
// where they are.
void when_ready(std::span<Tensor* const> tensors, std::function<void()> then);
void when_ready(TensorPart part, std::function<void()> then);

}  // namespace omni
