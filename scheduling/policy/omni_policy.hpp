// Our StarPU scheduling policy, for workers of one kind. They are equals, so they take their work from
// one queue: none idles while another has a backlog, whatever the performance models predicted. The
// models choose the implementation.
#pragma once

struct starpu_sched_policy;

namespace omni {

// For Session; named "omni".
starpu_sched_policy& omni_policy();

}  // namespace omni
