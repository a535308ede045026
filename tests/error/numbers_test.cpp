// These tests give "nan" and "-inf" to each option of each command. An option for a number must
// refuse them.
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;

// Each of these command lines ends early, with success or with an error that is found after those
// of options.
const std::vector<std::pair<std::string, Words>> kCommands{
    {"train", {"--net", "lenet", "--dry-run"}},
    {"train", {"--net", "lenet", "--dry-run", "--groups", "2", "--strategy", "sma"}},
    {"train", {"--net", "lenet", "--dry-run", "--groups", "2", "--strategy", "local"}},
    {"valid", {"--net", "absent", "--weights", "absent"}},
    {"predict", {"--net", "absent", "--weights", "absent"}},
    {"time", {"--net", "absent"}},
    {"plan", {"--net", "absent"}},
    {"compare",
     {"--net", "absent", "--data", "synthetic", "--strategies", "sync", "--target", "0.9"}},
    {"explain", {"absent"}},
    {"machine", {"--net", "absent"}},
    {"slurm", {"--net", "absent"}}};

std::vector<std::string> options_with_values(const std::string& command) {
  std::vector<std::string> names;
  std::istringstream help(omni_run({command, "--help"}).output);
  const std::regex option("^  (?:-\\w,)?(--[\\w-]+) [A-Z<{\\[].*");
  std::smatch found;
  for (std::string line; std::getline(help, line);)
    if (std::regex_match(line, found, option)) names.push_back(found[1]);
  return names;
}

class Numbers : public testing::Test {
 protected:
  // Returns the exit code and the message of the command with this value.
  static std::string answer(const std::string& command, const Words& others,
                            const std::string& option, const std::string& value) {
    Words words{command};
    words.insert(words.end(), others.begin(), others.end());
    if (!option.empty()) words.push_back(option + "=" + value);
    const Finished run = omni_run(words);
    return std::to_string(run.exit_code) + " " + run.errors;
  }
};

// Options that accept the value "word" expect names and are left out. All other options must refuse
// "nan" and "-inf".
TEST_F(Numbers, AreFinite) {
  const TemporaryDirectory folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  int wanting = 0;
  for (const auto& [command, others] : kCommands) {
    const std::string usual = answer(command, others, "", "");
    for (const std::string& option : options_with_values(command)) {
      if (answer(command, others, option, "word") == usual) continue;
      ++wanting;
      for (const char* value : {"nan", "-inf"})
        EXPECT_NE(answer(command, others, option, value), usual)
            << command << ' ' << option << '=' << value;
    }
  }
  std::filesystem::current_path(before);
  EXPECT_GT(wanting, 30);
}

}  // namespace
}  // namespace omni::test
