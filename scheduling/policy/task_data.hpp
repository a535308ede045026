// The data of a task. StarPU stores the first ones in the task itself, further ones in an array
// beside it.
#pragma once

#include <starpu.h>

namespace omni {

// use(handle, mode) for each.
void for_data(const starpu_task& task, auto use) {
  for (unsigned i = 0; i < STARPU_TASK_GET_NBUFFERS(&task); ++i)
    use(STARPU_TASK_GET_HANDLE(&task, i), STARPU_TASK_GET_MODE(&task, i));
}

}  // namespace omni
