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
  return gpus_compute() &&
         (current.deterministic || current.gpus_alone || current.preferred == "cuda");
}

}  // namespace omni
