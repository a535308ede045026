// These tests read the wrong cfg files in cfg_cases.txt. Each is refused with the expected kind of
// error, line, text and hint.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "layers/formats/darknet/darknet.hpp"
#include "layers/net.hpp"
#include "runtime/log.hpp"
#include "tests/support/omni_run_fork.hpp"

namespace omni {
namespace {

struct CfgCase {
  enum class Stage { grammar, values, meaning };
  std::string name;
  Stage stage = Stage::grammar;
  bool strict = false;
  std::string what, hint;  // fragments of the message
  std::string text;
  int line = 0;  // the one that the message names
};

// gtest prints a test's parameter with this function.
void PrintTo(const CfgCase& each, std::ostream* stream) { *stream << each.text; }

constexpr std::string_view kNet =
    "[net]\nbatch=4\nheight=8\nwidth=8\nchannels=3\nmax_batches=10\nlearning_rate=0.01\n";

[[noreturn]] void malformed(const CfgCase& each, const std::string& why) {
  throw std::runtime_error("cfg_cases.txt, case '" + each.name + "': " + why);
}

std::string unescape(const CfgCase& each, std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\') {
      text += line[i];
      continue;
    }
    const char kind = ++i < line.size() ? line[i] : ' ';
    if (kind == 'r') {
      text += '\r';
    } else if (kind == 't') {
      text += '\t';
    } else if (kind == '\\') {
      text += '\\';
    } else if (kind == 'x' && i + 2 < line.size()) {
      text += static_cast<char>(std::stoi(std::string(line.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      malformed(each, "unknown escape");
    }
  }
  return text;
}

void read_header(CfgCase& each, const std::string& line) {
  const std::size_t colon = line.find(": ");
  if (colon == line.npos) malformed(each, "header without ': ': " + line);
  const std::string key = line.substr(0, colon), value = line.substr(colon + 2);
  if (key == "what") {
    each.what = value;
  } else if (key == "hint") {
    each.hint = value;
  } else if (key == "strict") {
    each.strict = value == "1";
  } else if (key == "stage" && value == "grammar") {
    each.stage = CfgCase::Stage::grammar;
  } else if (key == "stage" && value == "values") {
    each.stage = CfgCase::Stage::values;
  } else if (key == "stage" && value == "meaning") {
    each.stage = CfgCase::Stage::meaning;
  } else {
    malformed(each, "unknown header: " + line);
  }
}

void read_cfg_line(CfgCase& each, std::string_view line) {
  if (line == "@net") {
    each.text += kNet;
    return;
  }
  if (line.starts_with('>')) {
    if (each.line != 0) malformed(each, "two lines start with >");
    line.remove_prefix(1);
    each.line = 1;
    for (char c : each.text) each.line += c == '\n' ? 1 : 0;
  }
  each.text += unescape(each, line) + "\n";
}

// Throws std::runtime_error when the table itself is malformed.
std::vector<CfgCase> load_cfg_cases(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path);
  std::vector<CfgCase> cases;
  bool in_cfg = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("=== ")) {
      cases.emplace_back().name = line.substr(4);
      in_cfg = false;
    } else if (cases.empty()) {
      continue;  // the explanation above the first case
    } else if (in_cfg) {
      read_cfg_line(cases.back(), line);
    } else if (line == "---") {
      in_cfg = true;
    } else {
      read_header(cases.back(), line);
    }
  }
  for (const CfgCase& each : cases)
    if (each.line == 0 || each.what.empty()) malformed(each, "needs what: and a line with >");
  return cases;
}

class CfgCases : public testing::TestWithParam<CfgCase> {};

TEST_P(CfgCases, RefusedWithKindLineTextAndHint) {
  const CfgCase& each = GetParam();
  const log::Capture quiet;
  const auto sections = parse_darknet_sections(each.text, "bad.cfg");
  Error error;
  if (each.stage == CfgCase::Stage::grammar) {
    ASSERT_FALSE(sections) << "the parser took it";
    error = sections.error();
  } else {
    ASSERT_TRUE(sections) << "refused too early: " << sections.error().message();
    const auto spec = parse_darknet_cfg(each.text, "bad.cfg", {.strict = each.strict});
    const auto net = spec ? Net::build(*spec, {}) : spec.error();
    ASSERT_FALSE(net) << "a net was built of it";
    error = net.error();
  }
  EXPECT_EQ(error.kind, ErrorKind::usage);
  EXPECT_EQ(error.where, "bad.cfg:" + std::to_string(each.line));
  EXPECT_NE(error.what.find(each.what), std::string::npos) << error.message();
  EXPECT_FALSE(error.hint.empty()) << error.message();
  EXPECT_NE(error.hint.find(each.hint), std::string::npos) << error.message();
}

TEST_P(CfgCases, EndsTheProgramWithExitCodeTwo) {
  const CfgCase& each = GetParam();
  const test::TemporaryDirectory folder;
  test::put(folder / "bad.cfg", each.text);
  std::vector<std::string> command{"--dry-run", "--net", folder / "bad.cfg"};
  if (each.strict) command.push_back("--strict");
  const test::Finished run = test::omni_run_fork(command);
  EXPECT_EQ(run.exit_code, 2) << run.errors;
  EXPECT_EQ(run.output, "");
  const std::string place = (folder / "bad.cfg").string() + ":" + std::to_string(each.line) + ": ";
  const std::size_t found = run.errors.find("error: " + place);
  ASSERT_NE(found, std::string::npos) << run.errors;
  EXPECT_NE(run.errors.find(each.what, found), std::string::npos) << run.errors;
}

std::string test_name(const testing::TestParamInfo<CfgCase>& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Table, CfgCases,
                         testing::ValuesIn(load_cfg_cases(OMNI_SOURCE_DIR
                                                          "/tests/error/cfg_cases.txt")),
                         test_name);

}  // namespace
}  // namespace omni
