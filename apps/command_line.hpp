// This header reads the command line of a program with subcommands. An error names what is refused,
// and gives a hint. Only this file gives errors their exit codes (docs/user/exit-codes.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace omni {

constexpr int kSuccess = 0;

constexpr int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::failed: return 1;
    case ErrorKind::usage: return 2;
    case ErrorKind::data: return 3;
    case ErrorKind::out_of_memory: return 4;
    case ErrorKind::device: return 5;
    case ErrorKind::diverged: return 6;
    case ErrorKind::interrupted:
      return 75;  // EX_TEMPFAIL: what was done is in a checkpoint, please requeue
  }
  return 1;
}

// Returns the text as lines of at most `width` characters, broken at blanks. A longer word has a
// line of its own.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

// Makes --help of the program, and of subcommands that it gets later, list options by group, in
// lines of at most 100 columns.
void use_grouped_help(CLI::App& app);

// Returns nothing if the program can go on. Otherwise help or the version was printed on stdout, or
// one line "error: what (hint)" on stderr; it returns the exit code.
std::optional<int> read_command_line(CLI::App& app, int argc, const char* const* argv);

// Makes a check for options: the number lies within both bounds, so "nan" is refused.
CLI::Validator within(double least, double most);

// Returns the exit code of run(), or of an exception that it throws, whose message is printed.
int exit_code_of(int (*run)(int argc, char** argv), int argc, char** argv);

// After this call, an exception that leaves a thread or a noexcept function ends the process. Its
// message is printed, and the exit code is that of exit_code_of().
void end_in_order_on_exceptions();

// kVersion names the build: version.cmake fills it in whenever something is built.
extern const char* const
    kVersion;  // "0.1.0-3f2a91c8", with "-dirty" if the sources were not that commit's

}  // namespace omni
