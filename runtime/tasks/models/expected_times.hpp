// What StarPU's models expect of every implementation that a task may choose from, added up per
// (codelet, layer, implementation). Off unless asked for; then the end of every task asks them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

struct starpu_task;

namespace omni {

struct ExpectedTime {
  std::string codelet;
  int layer = -1;  // -1: belongs to none
  std::string implementation;
  bool on_gpu = false;
  std::uint64_t tasks = 0;
  double seconds = 0;  // NaN: one of the tasks has a shape that no model knows yet
};

namespace expected_times {

void start();                        // forgets what was recorded before
std::vector<ExpectedTime> finish();  // after wait_for_tasks()
bool recording();

// `slot` as StarPU counts the implementations for CPUs, or for GPUs.
void record(const starpu_task& task, bool on_gpu, unsigned slot, const std::string& codelet,
            int layer, const std::string& implementation);

}  // namespace expected_times
}  // namespace omni
