// This header reads the command line of a program with subcommands. What is refused is named, with
// a hint. It also makes the documented exit codes (docs/user/exit-codes.md) of errors, which no
// other file does.
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

// Returns nothing if all is well. Otherwise it returns the exit code, after help or version on
// stdout, or one line "error: what (hint)".
std::optional<int> read_command_line(CLI::App& app, int argc, const char* const* argv);

// Makes a check for options: the number lies within both bounds, so "nan" is refused.
CLI::Validator within(double least, double most);

// Returns the exit code of run(), or of an exception that it throws, whose message is printed.
int exit_code_of(int (*run)(int argc, char** argv), int argc, char** argv);

// From here on, an exception that leaves a thread, or a function that must not throw, is printed in
// the same way. It ends the process with the same exit code.
void end_in_order_on_exceptions();

// kVersion names the build: version.cmake fills it in whenever something is built.
extern const char* const
    kVersion;  // "0.1.0-3f2a91c8", with "-dirty" if the sources were not that commit's

}  // namespace omni
