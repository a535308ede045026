// This is the project's StarPU scheduling policy. A ready task goes to the kind of workers that is
// predicted to finish it first. The prediction uses the backlog, the transfers, and the length of
// the best implementation. Workers of one kind take their tasks from one queue.
#pragma once

struct starpu_sched_policy;

namespace omni {

// Returns the policy "omni", which Session passes to StarPU.
starpu_sched_policy& omni_policy();

}  // namespace omni
