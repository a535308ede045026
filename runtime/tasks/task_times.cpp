#include "runtime/tasks/task_times.hpp"

#include <starpu.h>
#include <starpu_profiling.h>

#include <atomic>
#include <map>
#include <mutex>
#include <tuple>

namespace omni::task_times {
namespace {

std::atomic<bool> enabled{false};
int profiled_before = STARPU_PROFILING_DISABLE;  // the recorder may have asked for it
std::mutex mutex;
std::map<std::tuple<std::string, std::string, int>, TaskTime> totals;

}  // namespace

void start() {
  const std::lock_guard lock(mutex);
  totals.clear();
  profiled_before = starpu_profiling_status_get();
  starpu_profiling_status_set(STARPU_PROFILING_ENABLE);
  enabled = true;
}

std::vector<TaskTime> finish() {
  const std::lock_guard lock(mutex);
  enabled = false;
  starpu_profiling_status_set(profiled_before);
  std::vector<TaskTime> times;
  for (auto& [key, time] : totals) times.push_back(std::move(time));
  totals.clear();
  return times;
}

bool recording() { return enabled.load(std::memory_order_relaxed); }

void record(const std::string& codelet, const std::string& implementation, int layer, bool on_gpu,
            double seconds, double flops, double bytes) {
  const std::lock_guard lock(mutex);
  TaskTime& time = totals[{codelet, implementation, layer}];
  time.codelet = codelet;
  time.implementation = implementation;
  time.layer = layer;
  time.on_gpu = on_gpu;
  ++time.tasks;
  time.seconds += seconds;
  time.flops += flops;
  time.bytes += bytes;
}

}  // namespace omni::task_times
