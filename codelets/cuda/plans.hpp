// What a library needs to run an operation on a shape, prepared when a worker meets that shape for
// the first time.
#pragma once

#include <map>
#include <utility>

#include "runtime/cuda/worker.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/locals.hpp"

namespace omni {

// What a plan was made for. Tests change the policy.
template <class Key>
struct PlanKey {
  Precision precision;
  bool deterministic;
  Key key;

  auto operator<=>(const PlanKey&) const = default;
};

// The worker's plan for `key`, made of these arguments if there is none.
template <class Plan, class Key, class... Arguments>
Plan& plan_for(CudaWorker& worker, const Key& key, Arguments&&... arguments) {
  const ImplementationPolicy& policy = implementation_policy();
  const PlanKey<Key> full{policy.precision, policy.deterministic, key};
  auto& plans = worker.prepared().get<std::map<PlanKey<Key>, Plan>>();
  auto found = plans.find(full);
  if (found == plans.end())
    found = plans.try_emplace(full, std::forward<Arguments>(arguments)...).first;
  return found->second;
}

}  // namespace omni
