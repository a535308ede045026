// A callback when tensors have their values, without waiting.
#pragma once

#include <functional>
#include <span>

#include "runtime/tasks/access.hpp"

namespace omni {

// Calls `then` once, when all tasks submitted so far that write these tensors are done: in a
// worker's thread, or at once in this one. Moves no data. It must not wait for anything.
void when_ready(std::span<Tensor* const> tensors, std::function<void()> then);
void when_ready(TensorPart part, std::function<void()> then);

}  // namespace omni
