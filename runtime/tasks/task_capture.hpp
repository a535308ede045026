// This header captures submitted tasks, in the order of submission. They are the task graph of an
// iteration, from which memory is planned or run times are predicted. A thread captures what it
// submits itself.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/tasks/access.hpp"
#include "runtime/tasks/device_context.hpp"
#include "runtime/tasks/submission.hpp"
#include "runtime/tasks/tensor.hpp"

struct starpu_task;

namespace omni {

struct CapturedTask {
  struct Use {
    TensorPart part;
    AccessMode mode;
    std::uint32_t id() const { return part.tensor->id(part.part); }
    // Returns the bytes of a transfer. It moves all of the part's memory, also if an alias or a
    // range is smaller.
    std::size_t bytes() const {
      const Tensor& storage = part.tensor->storage();
      return storage.count_of(part.part) * bytes_of(storage.type());
    }
  };
  std::string codelet;
  int layer = -1, slice = -1, priority = 0, group = 0;
  std::int64_t iteration = -1;
  bool any_worker = true;  // false: only the workers of its group may run the task
  double flops = 0, bytes = 0;
  WorkingFloats working{};
  std::vector<double> seconds{};  // expected, by MachineModel::kinds; infinite: unknown
  std::vector<Use> uses;
};

namespace task_capture {

void start();  // from now on tasks are captured, and run as well; needs a running Session
std::vector<CapturedTask> finish();
// Captures the tasks that `submit` submits, without running them. Needs neither StarPU nor
// allocated tensors. Working::wanted also computes the working memory of each task. That can take
// long, as some codelets must plan their convolution for it.
enum class Working { unknown, wanted };
std::vector<CapturedTask> capture_tasks(const std::function<void()>& submit,
                                        Working working = Working::unknown);
bool is_on();
// Codelets call this function for every task while is_on(). False: the task must not run.
bool submitted(const std::string& codelet, std::span<const Access> accesses, TaskTag tag,
               double flops, double bytes, const std::function<WorkingFloats()>& working);
// Notes the expected time of the last captured task. `task` must be as it is submitted to StarPU,
// but need not be bound to workers.
void expect(starpu_task& task);

}  // namespace task_capture
}  // namespace omni
