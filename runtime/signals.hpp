// Requests to stop: SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU and SIGALRM. While there is
// nothing to save, one ends the process at once. After stop_in_order() a request prints what
// happens, and sets a flag that the trainer polls between iterations. A second request some seconds
// later ends the process at once, with 128 + its number (launchers send the first one twice).
// SIGALRM, which the process sends itself, counts neither as the first nor as the second. StarPU's
// own handlers are off (Session). A handler that was installed before is called first: MPICH has
// one for SIGUSR1.
#pragma once

#include <string>

namespace omni {

// For a program's .preinit_array: before the libraries that it begins with, some of which take
// long. Until install_stop_signals() a request prints "stopped" and ends the process with `code`.
// A library that begins and cannot start its threads ends it with `failed`.
void listen_early(int code, int failed);

// Until stop_in_order() a request prints `farewell` and ends the process with `code`. May be called
// again, with another farewell.
void install_stop_signals(const std::string& farewell, int code);
void stop_in_order();
void stop_without_words();  // another process prints the message
bool stop_requested();
bool ignores_interrupts();  // SIGINT: as a script starts its background jobs

// Writing into a closed pipe, or beyond the limit of file sizes, fails instead of ending the
// process. If descriptor 0, 1 or 2 is closed, opens /dev/null for reading there. Otherwise the next
// opened file would get the number and the printed text.
void make_writes_fail();

}  // namespace omni
