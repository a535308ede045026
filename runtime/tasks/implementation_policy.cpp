#include "runtime/tasks/implementation_policy.hpp"

#include <utility>

namespace omni {
namespace {
ImplementationPolicy current;
}

void set_implementation_policy(ImplementationPolicy chosen) { current = std::move(chosen); }
const ImplementationPolicy& implementation_policy() { return current; }

bool gpus_compute() { return !current.gpu_workers.empty(); }

std::vector<std::size_t> gpu_worker_numbers() {
  std::vector<std::size_t> numbers;
  const std::vector<std::uint32_t>& words = current.gpu_workers;
  for (std::size_t number = 0; number < 32 * words.size(); ++number)
    if ((words[number / 32] >> number % 32 & 1u) != 0) numbers.push_back(number);
  return numbers;
}

bool only_gpus_compute() {
  if (!gpus_compute() || !(current.preferred.empty() || current.preferred == "cuda")) return false;
  return current.deterministic || current.gpus_alone || current.preferred == "cuda";
}

void let_cores_compute() { current.gpus_alone = false; }

}  // namespace omni
