// How a task uses a tensor. Written at the call site, so that a submission reads like the maths:
// {read(src), read(weights), write(dst)}.
#pragma once

#include <cstddef>
#include <optional>

namespace omni {

class Tensor;

// accumulate: read and write, where the order of the writers does not matter to the caller. StarPU
// may reorder such tasks (commute) unless the session is deterministic.
enum class AccessMode { read, write, read_write, accumulate };

// One part of a tensor; most are not cut and have only part 0. Or values of it: a task that uses
// some of a part waits for tasks that use others.
struct TensorPart {
  TensorPart(const Tensor& whole, std::size_t number = 0) : tensor(&whole), part(number) {}
  TensorPart(const Tensor& whole, std::size_t number, std::size_t its_first, std::size_t its_values)
      : tensor(&whole), part(number), first(its_first), values(its_values) {}
  const Tensor* tensor;
  std::size_t part;
  std::size_t first = 0, values = 0;  // 0: all

  std::size_t count() const;
  bool is_whole() const;
  // The same of another tensor: of one that is cut alike; or all of one that holds nothing else.
  TensorPart of(const Tensor& other) const;
};

inline std::optional<TensorPart> optional_part(const Tensor* tensor) {
  return tensor != nullptr ? std::optional<TensorPart>(*tensor) : std::nullopt;
}

struct Access {
  TensorPart data;
  AccessMode mode;
};

inline Access read(TensorPart data) { return {data, AccessMode::read}; }
inline Access write(TensorPart data) {  // the other values of its part are kept
  return {data, data.is_whole() ? AccessMode::write : AccessMode::read_write};
}
inline Access read_write(TensorPart data) { return {data, AccessMode::read_write}; }
inline Access accumulate(TensorPart data) { return {data, AccessMode::accumulate}; }

// An optional access: none without data.
inline std::optional<Access> if_any(Access (*access)(TensorPart), std::optional<TensorPart> data) {
  return data ? std::optional(access(*data)) : std::nullopt;
}
inline std::optional<Access> if_any(Access (*access)(TensorPart), const Tensor* data) {
  return if_any(access, optional_part(data));
}

// What the scheduler and the trace should know about one task besides its arguments.
struct TaskTag {
  int priority = 0;
  int layer = -1;  // index in the net, -1 when it belongs to none
  int slice = -1;
};

}  // namespace omni
