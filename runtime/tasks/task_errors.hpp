// This header keeps the first error that a task or a refused submission reports. The trainer looks
// for it between iterations. Tasks that begin after an error compute nothing.
#pragma once

#include <string>

#include "runtime/result.hpp"

namespace omni {

void report_task_error(Error error);
Status task_status();  // the first error, if there was one
// Returns the first error's message; null: there is none. Takes no lock, because signal handlers
// and all tasks call it.
const char* first_task_error();
Status wait_for_tasks();   // until every submitted task is done; see OwnTasks
void clear_task_errors();  // to be called at the start of a Session

// Sets the hint for errors about lack of memory on a GPU. The run sets it, since it knows the
// forecast.
void set_hint_for_full_gpu(std::string hint);
std::string hint_for_full_gpu();

}  // namespace omni
