#include "runtime/tasks/task_times.hpp"

#include <starpu.h>
#include <starpu_profiling.h>

#include "runtime/tasks/calls/task_chain.hpp"

namespace omni {

TimeTotals task_times(true), expected_times(false);

void TimeTotals::start() {
  TaskChain::record_finished();
  const std::lock_guard lock(mutex_);
  totals_.clear();
  if (profiles_) {
    profiled_before_ = starpu_profiling_status_get();
    starpu_profiling_status_set(STARPU_PROFILING_ENABLE);
  }
  enabled_ = true;
}

std::vector<TaskTime> TimeTotals::finish() {
  TaskChain::record_finished();
  const std::lock_guard lock(mutex_);
  enabled_ = false;
  if (profiles_) starpu_profiling_status_set(profiled_before_);
  std::vector<TaskTime> times;
  for (auto& [key, time] : totals_) times.push_back(std::move(time));
  totals_.clear();
  return times;
}

void TimeTotals::add(const TaskTime& time) {
  const std::lock_guard lock(mutex_);
  const auto [known, added] =
      totals_.try_emplace({time.codelet, time.implementation, time.layer}, time);
  if (added) return;
  TaskTime& total = known->second;
  total.tasks += time.tasks;
  total.seconds += time.seconds;
  total.flops += time.flops;
  total.bytes += time.bytes;
}

}  // namespace omni
