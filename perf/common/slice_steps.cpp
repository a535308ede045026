#include "perf/common/slice_steps.hpp"

namespace omni::perf {

SliceSteps count_slice_steps(const Trace& trace) {
  const Dependencies dependencies(trace);
  SliceSteps steps;
  for (std::size_t i = 0; i < trace.tasks.size(); ++i) {
    const Task& task = trace.tasks[i];
    if (task.slice < 0 || task.layer < 0) continue;
    const Task* last = nullptr;
    for (const std::uint32_t before : dependencies.of(i))
      if (last == nullptr || trace.tasks[before].times.end > last->times.end)
        last = &trace.tasks[before];
    if (last == nullptr || last->slice != task.slice || last->layer < 0) continue;
    ++steps.all;
    steps.kept += last->worker == task.worker;
  }
  return steps;
}

}  // namespace omni::perf
