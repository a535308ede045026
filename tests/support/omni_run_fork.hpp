// omni_run_fork() runs omni-run in a copy of this process. Loading a program with CUDA's libraries
// takes 0.1 s, and tests run many commands that are refused. The test program must start neither
// StarPU nor threads, because a copy has only the thread that made it.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/run_program.hpp"

int omni_run_main(int argc, char** argv);  // what omni-run calls main

namespace omni::test {

inline Finished omni_run_fork(std::vector<std::string> command) {
  const TemporaryDirectory folder;
  const std::string output = folder / "stdout", errors = folder / "stderr";
  std::fflush(nullptr);  // else the copy would write it, too
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    const bool redirected = std::freopen("/dev/null", "r", stdin) != nullptr &&
                            std::freopen(output.c_str(), "w", stdout) != nullptr &&
                            std::freopen(errors.c_str(), "w", stderr) != nullptr;
    if (!redirected) _exit(127);
    command.insert(command.begin(), "omni-run");
    std::vector<char*> words;
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    std::exit(omni_run_main(static_cast<int>(command.size()), words.data()));
  }
  const int exit_code = wait_for_program(child);
  return {.exit_code = exit_code, .output = get(output), .errors = get(errors)};
}

}  // namespace omni::test
