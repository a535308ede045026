// These functions run a program without a shell, and return its output and exit code.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.hpp"

namespace omni::test {

// Returns the path of a program in the folder of this test program.
inline std::string beside_this_program(const char* name) {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename(name);
}

struct Finished {
  int exit_code = -1;
  std::string output, errors;
  std::size_t most_memory = 0;  // bytes that were resident at once
};

// Starts a program whose output and errors go to files (or are thrown away), and does not wait for
// it.
inline pid_t start_program(std::vector<std::string> command,
                           const std::string& output = "/dev/null",
                           const std::string& errors = "/dev/null") {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, errors.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawnattr_t defaults;  // whatever this program was told to ignore, by nohup for example
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_init(&defaults);
  posix_spawnattr_setsigdefault(&defaults, &all);
  posix_spawnattr_setflags(&defaults, POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  pid_t child = 0;
  const int failure =
      posix_spawn(&child, arguments[0], &actions, &defaults, arguments.data(), environ);
  posix_spawnattr_destroy(&defaults);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) throw std::runtime_error("cannot start " + command[0]);
  return child;
}

// Returns the program's exit code, or 128 + signal, as a shell does.
inline int wait_for_program(pid_t child, rusage* used = nullptr) {
  int status = 0;
  if (wait4(child, &status, 0, used) != child) {
    kill(child, SIGKILL);  // the watchdog of test_main.cpp does not wait any longer
    wait4(child, nullptr, 0, nullptr);
    throw std::runtime_error("the program hung, or there was none");
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

inline Finished run_program(std::vector<std::string> command) {
  const TemporaryDirectory folder;
  const std::string output = folder / "stdout", errors = folder / "stderr";
  const pid_t child = start_program(std::move(command), output, errors);
  rusage used{};
  const int exit_code = wait_for_program(child, &used);
  return {.exit_code = exit_code,
          .output = get(output),
          .errors = get(errors),
          .most_memory = static_cast<std::size_t>(used.ru_maxrss) * 1024};
}

// Runs `work` in a copy of this process. Returns 0 if `work` returned true, 1 if it returned false,
// or 128 + the signal that ended the copy.
template <class Work>
int in_a_copy(Work work) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  return wait_for_program(child);
}

}  // namespace omni::test
