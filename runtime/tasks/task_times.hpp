// Who ran what for how long, added up per (codelet, implementation, layer). Off unless asked for;
// then every task pays two clock reads. On a GPU it is StarPU that measures, since kernels there
// run after they were enqueued.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace omni {

struct TaskTime {
  std::string codelet, implementation;
  int layer = -1;  // -1: belongs to none
  bool on_gpu = false;
  std::uint64_t tasks = 0;
  double seconds = 0, flops = 0, bytes = 0;
};

namespace task_times {

void start();                    // forgets what was recorded before
std::vector<TaskTime> finish();  // after wait_for_tasks()
bool recording();
void record(const std::string& codelet, const std::string& implementation, int layer, bool on_gpu,
            double seconds, double flops, double bytes);

}  // namespace task_times
}  // namespace omni
