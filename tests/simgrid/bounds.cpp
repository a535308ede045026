#include "tests/simgrid/bounds.hpp"

#include <algorithm>
#include <cmath>

namespace omni::test {

// Tasks that commute run one after the other. All of them have ended, at the earliest, after the
// first one's begin plus the sum of their times.
double Bounds::Datum::all_written() const { return std::max({written, added, begun + together}); }

void Bounds::add(const starpu_task& task, double on_core, double on_gpu) {
  tasks_.push_back({on_core, on_gpu});
  const double length = std::min(on_core, on_gpu);
  double start = 0;
  for (int i = 0; i < task.nbuffers; ++i) {
    Datum& datum = data_[task.handles[i]];
    if ((task.modes[i] & STARPU_COMMUTE) == 0)
      datum = {.written = datum.all_written(), .read = datum.read};
    start = std::max(start, datum.written);
    if ((task.modes[i] & STARPU_W) != 0) start = std::max(start, datum.read);
  }
  const double end = start + length;
  for (int i = 0; i < task.nbuffers; ++i) {
    Datum& datum = data_[task.handles[i]];
    if ((task.modes[i] & STARPU_COMMUTE) != 0) {
      datum.begun = datum.together == 0 ? start : std::min(datum.begun, start);
      datum.together += length;
      datum.added = std::max(datum.added, end);
    } else if ((task.modes[i] & STARPU_W) != 0) {
      datum = {.written = end};
    } else {
      datum.read = std::max(datum.read, end);
    }
    path_ = std::max(path_, datum.all_written());
  }
  path_ = std::max(path_, end);
}

// In the best division, cores get the tasks for which they are the least slower than GPUs. One task
// may be divided.
double Bounds::area(int cores, int gpus) const {
  double on_cores = 0, on_gpus = 0;
  if (gpus == 0) {
    for (const Lengths& task : tasks_) on_cores += task.core;
    return on_cores / cores;
  }
  std::vector<Lengths> order;
  for (const Lengths& task : tasks_)
    if (std::isinf(task.gpu))
      on_cores += task.core / cores;
    else
      order.push_back(task);
  std::ranges::sort(order, {}, [](const Lengths& task) { return task.core / task.gpu; });
  for (const Lengths& task : order) on_gpus += task.gpu / gpus;
  for (const Lengths& task : order) {
    if (on_cores >= on_gpus || std::isinf(task.core)) break;
    const double core = task.core / cores, gpu = task.gpu / gpus;
    const double moved = std::min(1.0, (on_gpus - on_cores) / (core + gpu));
    on_cores += moved * core;
    on_gpus -= moved * gpu;
  }
  return std::max(on_cores, on_gpus);
}

}  // namespace omni::test
