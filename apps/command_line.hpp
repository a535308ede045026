// Reading the command line of a program with subcommands: what is refused is named, with a hint.
// And what is around a program.
#pragma once

#include <optional>

namespace CLI {
class App;
}

namespace omni {

// Nothing: all is well. Otherwise the exit code, after help or version on stdout, or one line
// "error: what (hint)".
std::optional<int> read_command_line(CLI::App& app, int argc, const char* const* argv);

// The exit code of run(), or of what it throws, which is told.
int exit_code_of(int (*run)(int argc, char** argv), int argc, char** argv);

}  // namespace omni
