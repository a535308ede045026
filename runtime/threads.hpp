// Threads of ours. What one of them throws reaches whoever waits for it, or std::terminate(), which
// the programs answer with an exit code (apps/command_line.hpp). Nothing else starts a thread.
#pragma once

#include <functional>

namespace omni {

// Calls work(0) to work(count - 1), each in a thread of its own, and returns when all have. Throws
// what one of them threw. If not all threads can be started it calls none, and throws as
// start_thread() does.
void run_together(int count, const std::function<void(int)>& work);

// Calls `work` in a thread that may go on to the end of the process. Throws std::bad_alloc if there
// is no memory for one, std::runtime_error if the system has too many.
void start_thread(std::function<void()> work);

}  // namespace omni
