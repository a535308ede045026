// Stop requests. SIGTERM, SIGINT and SIGUSR2 say on stderr what happens, and set a flag that the
// trainer polls between iterations; one that comes again some seconds later leaves at once, with
// 128 + its number (launchers send the first one twice).
// StarPU's own handlers are off (Session), so these are the only ones.
#pragma once

namespace omni {

void install_stop_signals();
bool stop_requested();

}  // namespace omni
