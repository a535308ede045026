#include "runtime/tasks/task_capture.hpp"

#include <optional>
#include <utility>

#include "runtime/tasks/submission.hpp"

namespace omni::task_capture {
namespace {

thread_local std::optional<std::vector<CapturedTask>> captured;

}  // namespace

void start() { captured.emplace(); }

std::vector<CapturedTask> finish() {
  return std::exchange(captured, std::nullopt).value_or(std::vector<CapturedTask>());
}

void submitted(const std::string& codelet, std::span<const Access> accesses, TaskTag tag) {
  if (!captured) return;
  const Submission& scope = SubmissionScope::current();
  CapturedTask& task = captured->emplace_back(CapturedTask{.codelet = codelet,
                                                           .layer = tag.layer,
                                                           .slice = tag.slice,
                                                           .priority = tag.priority,
                                                           .group = scope.group,
                                                           .iteration = scope.iteration,
                                                           .any_worker = scope.workers == nullptr,
                                                           .uses = {}});
  for (const Access& access : accesses) task.uses.push_back({access.data, access.mode});
}

}  // namespace omni::task_capture
