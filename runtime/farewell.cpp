#include "runtime/farewell.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "runtime/threads.hpp"

namespace omni {
namespace {

constexpr int kPatienceMilliseconds = 5000;
constexpr std::size_t kReserve = 4 << 20;  // bytes freed before the act, as memory may have run out
constexpr std::array kFatal{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

std::atomic<bool> is_set{false}, is_said{false};
std::array<int, 2> wake{}, done{};  // pipes; a byte in `wake` wakes the thread, which closes `done`
std::array<char, 2000> why{};
std::array<struct sigaction, NSIG> fatal_before{};

extern "C" void on_fatal(int number) {
  std::array<char, 40> text{"signal SIG"};
  std::strncat(text.data(), sigabbrev_np(number), 8);
  say_farewell(text.data());
  // The signal is blocked until this handler returns. Then the previous handler gets it.
  sigaction(number, &fatal_before[number], nullptr);
  raise(number);
}

}  // namespace

struct Farewell::Waiting {
  std::function<void(const std::string&)> act;
  std::vector<char> reserve = std::vector<char>(kReserve);
};

Farewell::Farewell(std::function<void(const std::string&)> act)
    : waiting_(std::make_shared<Waiting>(std::move(act))) {
  if (::pipe2(wake.data(), O_CLOEXEC) != 0 || ::pipe2(done.data(), O_CLOEXEC) != 0)
    throw std::runtime_error("no more files can be opened (raise ulimit -n)");
  // The thread below inherits that all signals are blocked: a handler in it would wait for the
  // thread itself.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  start_thread([waiting = waiting_, from = wake[0], to = done[1]] {
    char any = 0;
    if (::read(from, &any, 1) == 1) {
      std::vector<char>().swap(waiting->reserve);
      try {
        waiting->act(why.data());
      } catch (const std::exception&) {  // the process ends anyway
      }
    }
    ::close(from);
    ::close(to);
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  is_said = false;
  is_set = true;
  struct sigaction action {};
  action.sa_handler = on_fatal;
  for (const int number : kFatal) sigaction(number, &action, &fatal_before[number]);
}

Farewell::~Farewell() {
  for (const int number : kFatal) sigaction(number, &fatal_before[number], nullptr);
  is_set = false;
  ::close(wake[1]);  // the thread ends
  ::close(done[0]);
}

void say_farewell(std::string_view reason) {
  if (!is_set) return;
  if (!is_said.exchange(true)) {
    reason.copy(why.data(), why.size() - 1);
    if (::write(wake[1], "", 1) != 1) return;
  }
  pollfd ended{done[0], 0, 0};
  ::poll(&ended, 1, kPatienceMilliseconds);
}

}  // namespace omni
