// How a task uses a tensor. Written at the call site, so that a submit function reads like the
// maths: {read(src), read(weights), write(dst)}.
#pragma once

#include "runtime/tasks/tensor.hpp"

namespace omni {

// accumulate: read and write, where the order of the writers does not matter to the caller. StarPU
// may reorder such tasks (commute) unless the session is deterministic.
enum class AccessMode { read, write, read_write, accumulate };

struct Access {
  const Tensor& tensor;
  AccessMode mode;
};

inline Access read(const Tensor& tensor) { return {tensor, AccessMode::read}; }
inline Access write(const Tensor& tensor) { return {tensor, AccessMode::write}; }
inline Access read_write(const Tensor& tensor) { return {tensor, AccessMode::read_write}; }
inline Access accumulate(const Tensor& tensor) { return {tensor, AccessMode::accumulate}; }

// What the scheduler and the trace should know about one task besides its arguments.
struct TaskTag {
  int priority = 0;
  int layer = -1;  // index in the net, -1 when it belongs to none
  int slice = -1;
};

}  // namespace omni
