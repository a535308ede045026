// Errors of tasks and of refused submissions. The first error is kept; the trainer checks it
// between iterations. Tasks that begin after it compute nothing.
#pragma once

#include <string>

#include "runtime/result.hpp"

namespace omni {

void report_task_error(Error error);
Status task_status();  // the first reported error, if any
// Its message, null if there is none; takes no lock, for signal handlers and for every task.
const char* first_task_error();
Status wait_for_tasks();   // until every submitted task is done
void clear_task_errors();  // at the start of a Session

// The hint of out-of-memory errors on a GPU; set by the run, which knows the forecast.
void set_hint_for_full_gpu(std::string hint);
std::string hint_for_full_gpu();

}  // namespace omni
