// A TimeTotals sums up times of tasks by codelet, implementation and layer: measured times, or
// times that StarPU's models expect of every possible implementation. Recording is off by default.
// It costs a task two clock reads, or a query of the models. On a GPU StarPU measures, because
// kernels run after the task has enqueued them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace omni {

struct TaskTime {
  std::string codelet, implementation;
  int layer = -1;  // -1: no layer's task
  bool on_gpu = false;
  double seconds = 0;  // sum over `tasks`; NaN: no model knows the shape of some task
  double flops = 0, bytes = 0;
  std::uint64_t tasks = 1;
};

class TimeTotals {
 public:
  explicit TimeTotals(bool profiles) : profiles_(profiles) {}
  void start();                    // also forgets what was recorded before
  std::vector<TaskTime> finish();  // call it after wait_for_tasks()
  bool recording() const { return enabled_.load(std::memory_order_relaxed); }
  void add(const TaskTime& time);

 private:
  const bool profiles_;  // true: asks StarPU for the times of GPUs
  std::atomic<bool> enabled_{false};
  std::mutex mutex_;
  int profiled_before_ = 0;  // StarPU's setting before start(): a Recorder may profile, too
  std::map<std::tuple<std::string, std::string, int>, TaskTime> totals_;
};

extern TimeTotals task_times, expected_times;

}  // namespace omni
