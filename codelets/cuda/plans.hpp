// What a library needs to run an operation on a shape, prepared when a worker meets that shape for
// the first time, and where its memory begins, as far as libraries choose by it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "runtime/cuda/worker.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/device_context.hpp"

namespace omni {

constexpr int kWidestLoad = 16;  // bytes

// In bytes. No more than the widest load of a thread asks for: where memory happens to be must not
// decide which algorithm is taken, and with it how results are rounded.
inline int alignment_of(const void* address) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  return std::min(kWidestLoad, 1 << std::min(30, std::countr_zero(begin)));
}

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
