// This is our StarPU scheduling policy. A ready task goes to the kind of workers that is predicted
// to finish it first: by backlog, transfers, and length of the best implementation. Workers of one
// kind take their work from one queue.
#pragma once

struct starpu_sched_policy;

namespace omni {

// Returns the policy "omni" for Session.
starpu_sched_policy& omni_policy();

}  // namespace omni
