// Properties of all tasks that the calling thread submits in a scope: iteration, compute group,
// workers that may run them. Set around a pass of a net, so that layers need not pass them on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace omni {

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
