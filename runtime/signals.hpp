// This header handles the signals that ask this process to stop: SIGTERM, SIGINT, SIGHUP, SIGUSR1,
// SIGUSR2, SIGXCPU and SIGALRM. While there is nothing to save, the first one ends the process at
// once.
//
// After stop_in_order() the first signal prints what happens, and sets a flag that the trainer
// polls between iterations. A second signal, 2 seconds later or more, ends the process at once with
// 128 + its number. (Launchers send the first one twice.) SIGXCPU never counts as the second
// signal. SIGALRM counts neither as the first nor as the second. It comes from the process's own
// timer, or from its keeper (--survive), which prints the messages.
//
// A handler that was installed before is called first: MPICH has one for SIGUSR1. StarPU's own
// handlers are off (Session).
#pragma once

#include <string>

namespace omni {

// A program calls this function from its .preinit_array, before libraries are initialised, which
// may take long. Until install_stop_signals() a signal prints "stopped" and ends the process with
// `code`. If a library cannot start its threads, the process ends with `failed`.
void listen_early(int code, int failed);

// Until stop_in_order() a signal prints `farewell` and ends the process with `code`. May be called
// again, with another farewell.
void install_stop_signals(const std::string& farewell, int code);
void stop_in_order();
// After this call a signal before stop_in_order() does not end the process: end_requested() is then
// true, and another thread ends the process, together with others.
void let_others_end();
bool end_requested();
void stop_without_words();  // signals print nothing, as another process prints the messages
bool stop_requested();      // also while there is a pause
bool asked_to_stop();       // not by a pause
void request_stop();        // as a signal does, without its message
// During a pause trainings save and end, as after a request to stop. Their caller then lets them go
// on in another way.
void request_pause(bool pauses);
bool ignores_interrupts();  // true: SIGINT is ignored, as in background jobs of a script

// After this call, writing to a closed pipe, or beyond the limit of file sizes, fails instead of
// ending the process. If descriptor 0, 1 or 2 is closed, /dev/null is opened for reading there.
// Otherwise the next opened file would get the number, and the printed text.
void make_writes_fail();

}  // namespace omni
