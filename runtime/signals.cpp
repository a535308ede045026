#include "runtime/signals.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <ctime>

namespace omni {
namespace {

constexpr time_t kPatienceSeconds = 2;

// Second of the first request, on the monotonic clock; 0: none yet.
std::atomic<time_t> requested_at{0};
static_assert(std::atomic<time_t>::is_always_lock_free);

extern "C" void on_stop_signal(int number) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const time_t first = requested_at;
  if (first == 0)
    requested_at = now.tv_sec + 1;
  else if (now.tv_sec + 1 - first >= kPatienceSeconds)
    _exit(128 + number);
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

bool stop_requested() { return requested_at != 0; }

}  // namespace omni
