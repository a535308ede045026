#include "apps/command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "apps/exit_codes.hpp"
#include "runtime/log.hpp"
#include "runtime/nearest.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

std::string help_command(const CLI::App& app, const CLI::App& command) {
  return &app == &command ? fmt::format("{} --help", app.get_name())
                          : fmt::format("{} {} --help", app.get_name(), command.get_name());
}

std::vector<std::string_view> command_names(const CLI::App& app) {
  std::vector<std::string_view> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!command->get_name().empty()) names.push_back(command->get_name());
  return names;
}

// With those of option groups, which are subcommands without a name.
std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  std::vector<const CLI::Option*> options = command.get_options();
  for (const CLI::App* group : command.get_subcommands([](const CLI::App*) { return true; }))
    if (group->get_name().empty()) {
      const auto more = options_of(*group);
      options.insert(options.end(), more.begin(), more.end());
    }
  return options;
}

bool knows(const CLI::App& command, const std::string& option) {
  const auto options = options_of(command);
  return std::any_of(options.begin(), options.end(),
                     [&](const CLI::Option* each) { return each->check_name(option); });
}

std::string nearest_option(const CLI::App& command, std::string_view word) {
  std::vector<std::string_view> names;
  for (const CLI::Option* option : options_of(command))
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  return std::string(nearest(word, names));
}

Error usage_error(std::string what, std::string hint) {
  return {ErrorKind::usage, "", std::move(what), std::move(hint)};
}

Error comes_after(std::string_view option, const std::string& command) {
  return usage_error(fmt::format("{} stands before '{}'", option, command),
                     "options of a subcommand come after its name");
}

// An option that the program itself knows, too, and that the subcommand would not see.
std::optional<Error> misplaced_option(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  if (commands.empty()) return std::nullopt;
  for (const CLI::Option* option : options_of(app))
    if (option->count() > 0) return comes_after(option->get_name(), commands.front()->get_name());
  return std::nullopt;
}

Error unknown_option(const CLI::App& app, const CLI::App& command, const std::string& argument) {
  const std::string option = argument.substr(0, argument.find('='));
  if (const auto commands = app.get_subcommands(); !commands.empty() && &command == &app)
    if (knows(*commands.front(), option)) return comes_after(option, commands.front()->get_name());
  const std::string near = nearest_option(command, option);
  return usage_error(fmt::format("unknown option {}", shown_name(option)),
                     near.empty() ? fmt::format("'{}' lists them", help_command(app, command))
                                  : fmt::format("did you mean '--{}'?", near));
}

Error unknown_word(const CLI::App& app, const CLI::App& command, const std::string& word) {
  if (&command != &app || !app.get_subcommands().empty())
    return usage_error(fmt::format("unexpected argument {}", shown_name(word)),
                       help_command(app, command));
  const auto names = command_names(app);
  const std::string_view near = nearest(word, names);
  return usage_error(fmt::format("unknown command {}", shown_name(word)),
                     near.empty() ? fmt::format("one of: {}", fmt::join(names, " "))
                                  : fmt::format("did you mean '{}'?", near));
}

// The first argument that nobody took. CLI11 names such only when nothing else is wrong: a misspelt
// subcommand would be reported as a missing one.
std::optional<Error> unknown_argument(const CLI::App& app) {
  std::vector<const CLI::App*> commands{&app};
  for (const CLI::App* command : app.get_subcommands()) commands.push_back(command);
  for (const CLI::App* command : commands)
    for (const std::string& argument : command->remaining()) {
      if (argument == "--") continue;
      return argument.starts_with('-') ? unknown_option(app, *command, argument)
                                       : unknown_word(app, *command, argument);
    }
  return std::nullopt;
}

// What CLI11 found, with our hint.
Error other_error(const CLI::App& app, const CLI::ParseError& problem) {
  const auto commands = app.get_subcommands();
  if (commands.size() < app.get_require_subcommand_min())
    return usage_error("no command given",
                       fmt::format("one of: {}", fmt::join(command_names(app), " ")));
  return usage_error(problem.what(), help_command(app, commands.empty() ? app : *commands.front()));
}

}  // namespace

std::optional<int> read_command_line(CLI::App& app, int argc, const char* const* argv) {
  std::optional<Error> refusal;
  try {
    app.parse(argc, argv);
    refusal = misplaced_option(app);
  } catch (const CLI::Success& help_or_version) {
    app.exit(help_or_version);
    return kSuccess;
  } catch (const CLI::ParseError& problem) {
    refusal = misplaced_option(app);
    if (!refusal) refusal = unknown_argument(app);
    if (!refusal) refusal = other_error(app, problem);
  }
  if (!refusal) return std::nullopt;
  log::error("{}", refusal->message());
  return exit_code(refusal->kind);
}

int exit_code_of(int (*run)(int argc, char** argv), int argc, char** argv) {
  try {
    const int code = run(argc, argv);
    // Results that did not reach their file are no success.
    if (code == kSuccess && (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)) {
      log::error("cannot write the results to stdout");
      return exit_code(ErrorKind::failed);
    }
    return code;
  } catch (const std::bad_alloc&) {
    log::error("out of memory");
    return exit_code(ErrorKind::out_of_memory);
  } catch (const std::exception& problem) {
    log::error("{}", problem.what());
    return exit_code(ErrorKind::failed);
  }
}

}  // namespace omni
