#include "runtime/tasks/implementation_policy.hpp"

#include <utility>

namespace omni {
namespace {
ImplementationPolicy current;
}

void set_implementation_policy(ImplementationPolicy chosen) { current = std::move(chosen); }
const ImplementationPolicy& implementation_policy() { return current; }

bool gpus_compute() { return !current.gpu_workers.empty(); }

bool only_gpus_compute() {
  if (!gpus_compute() || !(current.preferred.empty() || current.preferred == "cuda")) return false;
  return current.deterministic || current.gpus_alone || current.preferred == "cuda";
}

void let_cores_compute() { current.gpus_alone = false; }

}  // namespace omni
