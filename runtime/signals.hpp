// Stop requests. SIGTERM, SIGINT and SIGUSR2 set a flag that the trainer polls between iterations;
// a second signal leaves at once. StarPU's own handlers are off (Session), so these are the only
// ones.
#pragma once

namespace omni {

void install_stop_signals();
bool stop_requested();
void request_stop();  // what a signal does; for time limits and tests
int stop_signal();    // the signal that asked, 0 if none

}  // namespace omni
