// Reading the command line of a program with subcommands: what is refused is named, with a hint.
// And what is around a program.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace omni {

// Lines of at most so many characters, broken at blanks; a longer word has a line of its own.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

// --help of the program and its subcommands: options by group, lines of at most 100 columns.
// `table` describes options; its form is that of apps/omni-run/help.txt.
void use_grouped_help(CLI::App& app, std::string_view table = "");

// Nothing: all is well. Otherwise the exit code, after help or version on stdout, or one line
// "error: what (hint)".
std::optional<int> read_command_line(CLI::App& app, int argc, const char* const* argv);

// The exit code of run(), or of what it throws, which is told.
int exit_code_of(int (*run)(int argc, char** argv), int argc, char** argv);

}  // namespace omni
