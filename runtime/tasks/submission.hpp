// This header has the properties with which a task is submitted, besides its arguments and
// accesses. The scheduler and the trace use them.
#pragma once

#include <cstdint>

#include "runtime/tasks/worker_set.hpp"

namespace omni {

// A TaskTag has the properties of one task.
struct TaskTag {
  int priority = 0;
  int layer = -1;  // index in the net; -1: no layer's task
  int slice = -1;  // of the mini-batch; -1: a task for all slices
};

// A Submission has the properties of all tasks that the calling thread submits in a scope. They are
// set around a pass of a net, so that layers need not hand them on.
struct Submission {
  std::int64_t iteration = -1;  // -1: none
  int group = 0;
  const WorkerSet* workers = nullptr;  // those that may run the tasks; outlives these; null: all
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
