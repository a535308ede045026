// These functions run the built omni-run for tests.
#pragma once

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/run_program.hpp"

namespace omni::test {

inline const std::string kOmniRun = beside_this_program("omni-run");

inline Finished omni_run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), kOmniRun);
  return run_program(std::move(arguments));
}

// Returns the number that follows these words in the text, or 0 if the words are missing.
inline int number_after(const std::string& text, const std::string& words) {
  const std::size_t at = text.find(words);
  return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + words.size());
}

// Returns the lines of a metrics file as JSON objects, in order.
inline std::vector<nlohmann::json> read_metrics(const std::filesystem::path& path) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(get(path));
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

}  // namespace omni::test
