// A plan is what a library needs to run an operation on a shape. It is made when a worker first
// meets the shape. It may depend on the alignment of the operands in memory.
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

// Returns the alignment in bytes, but at most that of a thread's widest load. A larger alignment is
// random. If it counted, it would decide which algorithm is taken and how results are rounded.
inline int alignment_of(const void* address) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  return std::min(kWidestLoad, 1 << std::min(30, std::countr_zero(begin)));
}

// Returns the worker's plan for `key` and the implementation policy, which tests change. If the
// worker has none, a plan is made from `arguments`.
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
