#include "runtime/tasks/task_capture.hpp"

#include <optional>
#include <utility>

#include "runtime/tasks/access.hpp"
#include "runtime/tasks/models/machine_model.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni::task_capture {
namespace {

struct Capture {
  bool runs_nothing = false;
  Working working = Working::unknown;
  MachineModel machine{};
  std::vector<CapturedTask> tasks;
};
thread_local std::optional<Capture> capture;

}  // namespace

void start() { capture.emplace(Capture{.machine = MachineModel::of_session(), .tasks = {}}); }

std::vector<CapturedTask> finish() {
  return std::exchange(capture, std::nullopt).value_or(Capture()).tasks;
}

std::vector<CapturedTask> capture_tasks(const std::function<void()>& submit, Working working) {
  std::optional<Capture> outer =
      std::exchange(capture, Capture{.runs_nothing = true, .working = working, .tasks = {}});
  submit();
  return std::exchange(capture, std::move(outer))->tasks;
}

bool is_on() { return capture.has_value(); }

bool submitted(const std::string& codelet, std::span<const Access> accesses, TaskTag tag,
               double flops, double bytes, const std::function<WorkingFloats()>& working) {
  const Submission& scope = SubmissionScope::current();
  CapturedTask& task =
      capture->tasks.emplace_back(CapturedTask{.codelet = codelet,
                                               .layer = tag.layer,
                                               .slice = tag.slice,
                                               .priority = tag.priority,
                                               .group = scope.group,
                                               .iteration = scope.iteration,
                                               .any_worker = scope.workers == nullptr,
                                               .flops = flops,
                                               .bytes = bytes,
                                               .uses = {}});
  if (capture->working == Working::wanted) task.working = working();
  for (const Access& access : accesses) task.uses.push_back({access.data, access.mode});
  return !capture->runs_nothing;
}

void expect(starpu_task& task) {
  if (capture) capture->tasks.back().seconds = capture->machine.expected_seconds(task);
}

}  // namespace omni::task_capture
