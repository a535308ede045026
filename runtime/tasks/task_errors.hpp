// Tasks and refused submissions report errors here. The first error is kept; the trainer checks for
// it between iterations. Tasks that begin later compute nothing.
#pragma once

#include <string>

#include "runtime/result.hpp"

namespace omni {

void report_task_error(Error error);
Status task_status();  // the first error, if there was one
// Returns the first error's message; null: there is none. It takes no lock: signal handlers and all
// tasks call it.
const char* first_task_error();
Status wait_for_tasks();   // until every submitted task is done; see OwnTasks
void clear_task_errors();  // to be called at the start of a Session

// Sets the hint of errors about a GPU's lack of memory. The run sets it, since it knows the
// forecast.
void set_hint_for_full_gpu(std::string hint);
std::string hint_for_full_gpu();

}  // namespace omni
