// These functions run omni-run on several ranks of this machine, started by MPICH's mpiexec.
#pragma once

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/omni_run.hpp"

namespace omni::test {

using Words = std::vector<std::string>;

inline Words mpiexec(int ranks, Words arguments) {
  Words command{OMNI_MPIEXEC, "-iface", "lo", "-n", std::to_string(ranks), kOmniRun};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

// Runs omni-run on several ranks, or without mpiexec on a single rank.
inline Finished on_ranks(int ranks, Words arguments) {
  return ranks == 1 ? omni_run(std::move(arguments))
                    : run_program(mpiexec(ranks, std::move(arguments)));
}

// Runs two ranks with different commands. Each begins with options of mpiexec, which stand before
// the program.
inline Finished on_two_unlike(Words first, Words second) {
  Words command{OMNI_MPIEXEC, "-iface", "lo", "-n", "1"};
  command.insert(command.end(), first.begin(), first.end());
  command.insert(command.end(), {":", "-n", "1"});
  command.insert(command.end(), second.begin(), second.end());
  return run_program(std::move(command));
}

// Returns the process of this rank that has `word` in its command line, or 0 if it does not run.
inline pid_t process_of_rank(int rank, const std::string& word) {
  const auto bytes_of = [](const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string variable = "PMI_RANK=" + std::to_string(rank) + '\0';
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t process = std::atoi(entry.path().filename().c_str());
    if (process <= 0 || bytes_of(entry.path() / "cmdline").find(word) == std::string::npos)
      continue;
    if (('\0' + bytes_of(entry.path() / "environ")).find('\0' + variable) != std::string::npos)
      return process;
  }
  return 0;
}

// Waits until the text is in the file. If it never is, the test program's time limit ends the wait.
inline void wait_for_text(const std::string& file, const std::string& text) {
  while (!std::filesystem::exists(file) || get(file).find(text) == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace omni::test
