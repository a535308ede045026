// What is submitted, in order: the task graph of an iteration, for those who want to know what it
// uses, or to predict how long it would take elsewhere. Of the submitting thread; off unless asked
// for.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/tasks/access.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {

struct CapturedTask {
  struct Use {
    TensorPart part;
    AccessMode mode;
    std::uint32_t id() const { return part.tensor->id(part.part); }
  };
  std::string codelet;
  int layer = -1, slice = -1, priority = 0, group = 0;
  std::int64_t iteration = -1;
  bool any_worker = true;  // else those of its group
  std::vector<Use> uses;
};

namespace task_capture {

void start();
std::vector<CapturedTask> finish();
// What `submit` would submit: nothing runs, so neither StarPU nor allocated tensors are needed.
std::vector<CapturedTask> rehearse(const std::function<void()>& submit);
// Called for every task. False: it is not to run.
bool submitted(const std::string& codelet, std::span<const Access> accesses, TaskTag tag);

}  // namespace task_capture
}  // namespace omni
