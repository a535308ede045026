#include "runtime/signals.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace omni {
namespace {

std::atomic<bool> requested{false};
std::atomic<int> signal_seen{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

extern "C" void on_stop_signal(int number) {
  if (signal_seen != 0) _exit(128 + number);
  signal_seen = number;
  requested = true;
}

}  // namespace

void install_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGTERM, SIGINT, SIGUSR2}) sigaction(number, &action, nullptr);
  // A closed pipe (`omni-run | head`) shows up as a failed write, not as a death without
  // checkpoint.
  std::signal(SIGPIPE, SIG_IGN);
}

bool stop_requested() { return requested; }
void request_stop() { requested = true; }
int stop_signal() { return signal_seen; }

}  // namespace omni
