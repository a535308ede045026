#include "runtime/signals.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>

namespace omni {
namespace {

constexpr time_t kPatienceSeconds = 2;

// The newline in front is for terminals, where a progress bar may stand in the line.
constexpr char kStopping[] =
    "\nstopping: finishing the iteration, then saving a checkpoint (asked again after 2 seconds: "
    "quitting at once, without saving)\n";
constexpr char kQuitting[] = "\nasked to stop again: quitting at once, without saving\n";
bool on_terminal = false;

// Second of the first request, on the monotonic clock; 0: none yet.
std::atomic<time_t> requested_at{0};
static_assert(std::atomic<time_t>::is_always_lock_free);

// Only what is async-signal-safe. A message that cannot be written changes nothing.
template <std::size_t N>
void say(const char (&message)[N]) {
  const int error = errno;
  const std::size_t skipped = on_terminal ? 0 : 1;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message + skipped, N - 1 - skipped);
  errno = error;
}

extern "C" void on_stop_signal(int number) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const time_t first = requested_at;
  if (first == 0) {
    requested_at = now.tv_sec + 1;
    say(kStopping);
  } else if (now.tv_sec + 1 - first >= kPatienceSeconds) {
    say(kQuitting);
    _exit(128 + number);
  }
}

}  // namespace

void install_stop_signals() {
  on_terminal = isatty(STDERR_FILENO) != 0;
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
