#include "runtime/signals.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <memory>
#include <string_view>

#include "runtime/farewell.hpp"

namespace omni {
namespace {

constexpr time_t kPatienceSeconds = 2;

// The newline in front is for terminals, where a progress bar may stand in the line.
constexpr std::string_view kStopping =
    "\nstopping: finishing the iteration, then saving a checkpoint (asked again after 2 seconds: "
    "quitting at once, without saving)\n";
constexpr std::string_view kQuitting = "\nasked to stop again: quitting at once, without saving\n";
bool on_terminal = false, silent = false;

constexpr std::array kRequests{SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM};
std::array<struct sigaction, NSIG> handlers_before{};

std::atomic<const char*> farewell_text{nullptr};  // never freed: a signal may come at any time
int farewell_code = 0;
std::atomic<bool> in_order{false}, others_end{false}, requested{false}, paused{false};
// One more than the second of the monotonic clock at which the first request to stop came; 0: there
// was none yet.
std::atomic<time_t> requested_at{0};
static_assert(std::atomic<time_t>::is_always_lock_free);

// Calls only async-signal-safe functions. A message that cannot be written is dropped.
void say(std::string_view message) {
  if (silent) return;
  const int error = errno;
  if (!on_terminal && message.front() == '\n') message.remove_prefix(1);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, message.data(), message.size());
  errno = error;
}

void call_handler_before(int number, siginfo_t* info, void* context) {
  const struct sigaction& before = handlers_before[number];
  if ((before.sa_flags & SA_SIGINFO) != 0)
    before.sa_sigaction(number, info, context);
  else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    before.sa_handler(number);
}

extern "C" void on_stop_signal(int number, siginfo_t* info, void* context) {
  call_handler_before(number, info, context);
  if (!in_order && !others_end) {
    say(farewell_text.load());
    _exit(farewell_code);
  }
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const time_t first = requested_at;
  requested = true;
  if (first == 0) {
    if (number != SIGALRM) requested_at = now.tv_sec + 1;
    const bool rests = number == SIGALRM && info->si_code == SI_USER;  // another process says why
    if (!rests) say(in_order ? kStopping : std::string_view(farewell_text.load()));
  } else if (now.tv_sec + 1 - first >= kPatienceSeconds && number != SIGXCPU &&
             number != SIGALRM) {  // SIGXCPU is sent every second
    say(kQuitting);
    say_farewell("asked to stop again");
    _exit(128 + number);
  }
}

int early_failure = 0;

// Ends this process, and lets hydra end the other ranks with the same code. Without this word hydra
// kills them while MPI starts, and may return their code, 9. Calls only what signal handlers may.
[[noreturn]] void end_early(int code) {
  char word[] = "cmd=abort exitcode=00\n";
  constexpr std::size_t kCode = std::string_view("cmd=abort exitcode=").size();
  word[kCode] = static_cast<char>('0' + code / 10 % 10);
  word[kCode + 1] = static_cast<char>('0' + code % 10);
  const char* const line = std::getenv("PMI_FD");
  if (line != nullptr) (void)!::write(std::atoi(line), word, sizeof word - 1);
  _exit(code);
}

// MPI's handler of SIGUSR1 later calls this one, as the handler before its own, with the number
// alone. So `info` must not be used for that signal.
extern "C" void on_early_request(int number, siginfo_t* info, void*) {
  if (farewell_text != nullptr) return;
  if (number == SIGINT && info->si_pid == getpid()) {  // OpenBLAS raised it
    say("error: a library cannot start its threads (raise ulimit -u or ulimit -v)\n");
    end_early(early_failure);
  }
  say("stopped\n");
  end_early(farewell_code);
}

bool is_ignored(int number) {  // as by nohup, or by a shell's &
  struct sigaction now {};
  return (number == SIGHUP || number == SIGINT) && sigaction(number, nullptr, &now) == 0 &&
         now.sa_handler == SIG_IGN;
}

}  // namespace

void listen_early(int code, int failed) {
  farewell_code = code;
  early_failure = failed;
  struct sigaction action {};
  action.sa_sigaction = on_early_request;
  action.sa_flags = SA_SIGINFO;
  for (const int number : kRequests)
    if (!is_ignored(number)) sigaction(number, &action, nullptr);
}

void install_stop_signals(const std::string& farewell, int code) {
  on_terminal = isatty(STDERR_FILENO) != 0;
  farewell_code = code;
  // Keeps all farewells to the end of the process, because a handler may be reading one.
  static auto& texts = *std::make_unique<std::deque<std::string>>().release();
  if (farewell_text.exchange(texts.emplace_back(farewell).c_str()) != nullptr) return;
  struct sigaction action {};
  action.sa_sigaction = on_stop_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  for (const int number : kRequests) {
    if (!is_ignored(number)) sigaction(number, &action, &handlers_before[number]);
  }
}

void stop_in_order() { in_order = true; }
void let_others_end() { others_end = true; }
bool end_requested() { return others_end && requested && !in_order; }
void stop_without_words() { silent = true; }
bool stop_requested() { return requested || paused; }
bool asked_to_stop() { return requested; }
void request_pause(bool pauses) { paused = pauses; }
void request_stop() { requested = true; }

bool ignores_interrupts() { return is_ignored(SIGINT); }

void make_writes_fail() {
  for (int descriptor = 0; descriptor <= STDERR_FILENO; ++descriptor)
    if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDONLY);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace omni
