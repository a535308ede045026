// Tasks run later and elsewhere, so their failures (and refused submissions) are kept here: the
// first one wins, and whoever drives the run looks between iterations. Results computed after it
// are not used.
#pragma once

#include <string>

#include "runtime/result.hpp"

namespace omni {

void report_task_error(Error error);
Status task_status();      // the first reported error, if any
Status wait_for_tasks();   // until every submitted task is done
void clear_task_errors();  // at the start of a Session

// What to try where a GPU has no room for what a task needs: what was forecast for the run knows.
void set_hint_for_full_gpu(std::string hint);
std::string hint_for_full_gpu();

}  // namespace omni
