// Our StarPU scheduling policy. Workers of one kind on one memory node are equals: they take their
// work from one queue, so that none idles while another has a backlog, whatever the performance
// models predicted. The models choose the implementation.
#pragma once

struct starpu_sched_policy;

namespace omni {

// For Session; named "omni". Workers of several kinds need StarPU's dmdas (see serves()).
starpu_sched_policy& omni_policy();

}  // namespace omni
