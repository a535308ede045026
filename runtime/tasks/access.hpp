// How a task uses a tensor. Written at the call site, so that a submission reads like the maths:
// {read(src), read(weights), write(dst)}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

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

// A set of StarPU's worker numbers, as the bit mask that its tasks take.
class WorkerSet {
 public:
  WorkerSet() = default;  // all workers
  explicit WorkerSet(const std::vector<int>& workers) {
    for (const int worker : workers) {
      const auto word = static_cast<std::size_t>(worker) / 32;
      if (bits_.size() <= word) bits_.resize(word + 1);
      bits_[word] |= std::uint32_t{1} << (worker % 32);
    }
  }
  bool all() const { return bits_.empty(); }
  bool has(std::size_t worker) const {
    return all() || (worker / 32 < bits_.size() && (bits_[worker / 32] >> worker % 32 & 1u) != 0);
  }
  const std::vector<std::uint32_t>& bits() const { return bits_; }

 private:
  std::vector<std::uint32_t> bits_;
};

// Properties of all tasks that the calling thread submits in a scope: iteration, compute group,
// workers that may run them. Set around a pass of a net, so that layers need not pass them on.
struct Submission {
  std::int64_t iteration = -1;  // -1: none
  int group = 0;
  const WorkerSet* workers = nullptr;  // null: all. Outlives the tasks.
};

class SubmissionScope {
 public:
  explicit SubmissionScope(Submission submission) : outer_(current_) { current_ = submission; }
  ~SubmissionScope() { current_ = outer_; }
  SubmissionScope(const SubmissionScope&) = delete;
  SubmissionScope& operator=(const SubmissionScope&) = delete;

  static const Submission& current() { return current_; }

 private:
  inline static thread_local Submission current_;
  Submission outer_;
};

}  // namespace omni
