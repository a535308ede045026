// A training in a process of its own.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

// Runs this program with other words and waits for the end. All that it prints goes into the file
// `log`. A stop request to this process is passed on, and the child does not outlive this process:
// then it gets SIGTERM, too. The exit code, or 128 + the number of the signal that ended it.
Result<int> run_child(std::vector<std::string> words, const std::filesystem::path& log);

}  // namespace omni
