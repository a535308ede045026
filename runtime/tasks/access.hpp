// An Access says which values of which tensor a task uses, and whether the task reads or writes
// them. A submission lists its accesses, so that it reads like the maths: {read(src), write(dst)}.
#pragma once

#include <cstddef>
#include <optional>

namespace omni {

class Tensor;

// `accumulate` means that a task reads and writes, as when it adds, and that the order of such
// tasks does not matter. StarPU may reorder them (commute), unless the session is deterministic.
enum class AccessMode { read, write, read_write, accumulate };

// A TensorPart is a part of a tensor, or a range of values in a part. A tensor that is not cut has
// only part 0. StarPU orders tasks by part, even if they use different ranges of the part.
struct TensorPart {
  TensorPart(const Tensor& whole, std::size_t number = 0) : tensor(&whole), part(number) {}
  TensorPart(const Tensor& whole, std::size_t number, std::size_t its_first, std::size_t its_values)
      : tensor(&whole), part(number), first(its_first), values(its_values) {}
  const Tensor* tensor;
  std::size_t part;
  std::size_t first = 0, values = 0;  // `values` 0: the whole part

  std::size_t count() const;
  bool is_whole() const;
  // Returns the same range of another tensor, which is cut in the same way. If the other tensor has
  // only as many values as this range, returns all of it.
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
// A task that writes a range keeps the part's other values, so StarPU must fetch the part.
inline Access write(TensorPart data) {
  return {data, data.is_whole() ? AccessMode::write : AccessMode::read_write};
}
inline Access read_write(TensorPart data) { return {data, AccessMode::read_write}; }
inline Access accumulate(TensorPart data) { return {data, AccessMode::accumulate}; }

// Returns no access if an optional tensor is not there.
inline std::optional<Access> if_any(Access (*access)(TensorPart), std::optional<TensorPart> data) {
  return data ? std::optional(access(*data)) : std::nullopt;
}
inline std::optional<Access> if_any(Access (*access)(TensorPart), const Tensor* data) {
  return if_any(access, optional_part(data));
}

}  // namespace omni
