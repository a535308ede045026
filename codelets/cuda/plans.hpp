// What a library needs to run an operation on a shape, prepared when a worker meets that shape for
// the first time.
#pragma once

#include <map>
#include <tuple>
#include <utility>

#include "runtime/cuda/worker.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/locals.hpp"

namespace omni {

// The worker's plan for `key` and the policy, which tests change; made of these arguments if there
// is none.
template <class Plan, class Key, class... Arguments>
Plan& plan_for(CudaWorker& worker, const Key& key, Arguments&&... arguments) {
  const ImplementationPolicy& policy = implementation_policy();
  std::tuple full(policy.precision, policy.deterministic, key);
  auto& plans = worker.prepared().get<std::map<decltype(full), Plan>>();
  auto found = plans.find(full);
  if (found == plans.end())
    found = plans.try_emplace(full, std::forward<Arguments>(arguments)...).first;
  return found->second;
}

}  // namespace omni
