#include "apps/omni-run/compare/child.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "runtime/own_command.hpp"
#include "runtime/signals.hpp"

namespace omni {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(20);
constexpr int kNotStarted = 127;

// In the copy of this process, so only what is async-signal-safe. posix_spawn() could not ask for
// the signal on the parent's death.
[[noreturn]] void become(char* const* words, int log, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kNotStarted);
  const int input = open("/dev/null", O_RDONLY);
  for (const auto& [from, to] : {std::pair(input, 0), std::pair(log, 1), std::pair(log, 2)})
    if (dup2(from, to) < 0) _exit(kNotStarted);
  execv("/proc/self/exe", words);
  _exit(kNotStarted);
}

}  // namespace

Result<int> run_child(std::vector<std::string> words, const std::filesystem::path& log) {
  const auto failed = [](const std::string& where) {
    return Error{ErrorKind::failed, where, std::strerror(errno), ""};
  };
  words.insert(words.begin(), own_words().front());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return failed(log.string());
  const pid_t parent = getpid(), child = fork();
  if (child == 0) become(pointers.data(), file, parent);
  close(file);
  if (child < 0) return failed("a new process");
  bool passed_on = false;
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (ended < 0 && errno != EINTR) return failed("a training");
    if (stop_requested() && !passed_on) {
      kill(child, SIGTERM);
      passed_on = true;
    }
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace omni
