// Only these functions start threads. An exception in a thread reaches the caller who waits for it.
// Where nobody waits it reaches std::terminate(), which the programs turn into an exit code
// (apps/command_line.hpp).
#pragma once

#include <functional>

namespace omni {

// Calls work(0) to work(count - 1) in a thread each, and returns when all have returned. Throws
// what one of them threw. If it cannot start all threads it calls none, and throws as
// start_thread() does.
void run_together(int count, const std::function<void(int)>& work);

// Calls `work` in a thread that may go on to the end of the process. Throws std::bad_alloc without
// memory for a thread, and std::runtime_error if the system has too many threads.
void start_thread(std::function<void()> work);

}  // namespace omni
