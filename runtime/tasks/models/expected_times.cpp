#include "runtime/tasks/models/expected_times.hpp"

#include <starpu.h>

#include <atomic>
#include <map>
#include <mutex>
#include <tuple>

namespace omni::expected_times {
namespace {

std::atomic<bool> enabled{false};
std::mutex mutex;
std::map<std::tuple<std::string, int, std::string>, ExpectedTime> totals;

}  // namespace

void start() {
  const std::lock_guard lock(mutex);
  totals.clear();
  enabled = true;
}

std::vector<ExpectedTime> finish() {
  const std::lock_guard lock(mutex);
  enabled = false;
  std::vector<ExpectedTime> times;
  for (auto& [key, time] : totals) times.push_back(std::move(time));
  totals.clear();
  return times;
}

bool recording() { return enabled.load(std::memory_order_relaxed); }

void record(const starpu_task& task, bool on_gpu, unsigned slot, const std::string& codelet,
            int layer, const std::string& implementation) {
  // Workers of a kind share their models.
  const int worker = starpu_worker_get_by_type(on_gpu ? STARPU_CUDA_WORKER : STARPU_CPU_WORKER, 0);
  if (worker < 0) return;
  const double microseconds =
      starpu_task_worker_expected_length(const_cast<starpu_task*>(&task),  // only read
                                         static_cast<unsigned>(worker), task.sched_ctx, slot);
  const std::lock_guard lock(mutex);
  ExpectedTime& time = totals[{codelet, layer, implementation}];
  time.codelet = codelet;
  time.layer = layer;
  time.implementation = implementation;
  time.on_gpu = on_gpu;
  ++time.tasks;
  time.seconds += 1e-6 * microseconds;
}

}  // namespace omni::expected_times
