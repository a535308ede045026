// Captures submitted tasks in order: the task graph of an iteration, to plan memory or to predict
// run times elsewhere. Per submitting thread; off by default.
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
    // The bytes that a transfer moves: the whole memory, which aliases share.
    std::size_t bytes() const {
      const Tensor& storage = part.tensor->storage();
      return storage.count_of(part.part) * bytes_of(storage.type());
    }
  };
  std::string codelet;
  int layer = -1, slice = -1, priority = 0, group = 0;
  std::int64_t iteration = -1;
  bool any_worker = true;  // else those of its group
  double flops = 0, bytes = 0;
  WorkingFloats working{};
  std::vector<double> seconds{};  // by kind of worker (MachineModel), as far as models know
  std::vector<Use> uses;
};

namespace task_capture {

void start();  // needs a running Session
std::vector<CapturedTask> finish();
// The tasks that `submit` submits, without running them; needs neither StarPU nor allocated
// tensors. Working memory is computed only on request, since some tasks must prepare for that.
enum class Working { unknown, wanted };
std::vector<CapturedTask> capture_tasks(const std::function<void()>& submit,
                                        Working working = Working::unknown);
bool is_on();
// Called for every task while capturing. False: do not run the task.
bool submitted(const std::string& codelet, std::span<const Access> accesses, TaskTag tag,
               double flops, double bytes, const std::function<WorkingFloats()>& working);
// Notes the expected time of the last task. It must be as StarPU gets it, except for bound workers.
void expect(starpu_task& task);

}  // namespace task_capture
}  // namespace omni
