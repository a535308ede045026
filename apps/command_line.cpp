#include "apps/command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "runtime/farewell.hpp"
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

// Prints an option's names, its value, and a wrapped description. A description may begin with the
// name of the value, as "<SECONDS> Longest time". CLI11 would print INT:INT in [0 - 1073741824]
// instead.
class GroupedHelp final : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool positional) const override {
    std::string name = make_option_name(option, positional), value = option->get_type_name();
    std::string about = option->get_description();
    if (about.starts_with('<')) {
      const std::size_t end = about.find("> ");
      value = about.substr(1, end - 1);
      about.erase(0, end + 2);
    }
    if (option->get_type_size() != 0 && !positional) name += " " + value;
    if (option->get_required()) about += "; required";
    if (option->get_type_size() != 0 && !option->get_default_str().empty())
      about += "; default: " + option->get_default_str();
    for (const CLI::Option* other : option->get_excludes())
      about += "; not with " + other->get_name();
    for (const CLI::Option* other : option->get_needs())
      about += "; only with " + other->get_name();
    return row(name, about);
  }
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    return CLI::detail::find_and_replace(Formatter::make_help(app, name, mode), "\n\n\n", "\n\n");
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return row(command->get_name(), command->get_description());
  }

 private:
  static std::string row(const std::string& name, const std::string& about) {
    constexpr std::size_t kName = 28, kLine = 100;
    std::string text = "  " + name;
    if (text.size() + 2 > kName) text += '\n';
    std::size_t at = text.back() == '\n' ? 0 : text.size();
    for (const std::string& line : wrapped(about, kLine - kName)) {
      text += std::string(kName - at, ' ') + line + '\n';
      at = 0;
    }
    return text;
  }
};

Error usage_error(std::string what, std::string hint) {
  return {ErrorKind::usage, "", std::move(what), std::move(hint)};
}

Error comes_after(std::string_view option, const std::string& command) {
  return usage_error(fmt::format("{} stands before '{}'", option, command),
                     "options of a subcommand come after its name");
}

// Returns an error if an option stands before a subcommand that does not take it there.
std::optional<Error> misplaced_option(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  if (commands.empty() || commands.front()->get_fallthrough()) return std::nullopt;
  for (const CLI::Option* option : app.get_options())
    if (option->count() > 0) return comes_after(option->get_name(), commands.front()->get_name());
  return std::nullopt;
}

// Returns the subcommand, if it takes the program's options, too, and has a help of its own.
const CLI::App* extended(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  const bool extends = !commands.empty() && commands.front()->get_fallthrough() &&
                       commands.front()->get_help_ptr() != nullptr;
  return extends ? commands.front() : nullptr;
}

Error unknown_option(const CLI::App& app, const CLI::App& command, const std::string& argument) {
  const std::string option = argument.substr(0, argument.find('='));
  if (const auto commands = app.get_subcommands(); !commands.empty() && &command == &app)
    if (commands.front()->get_option_no_throw(option))
      return comes_after(option, commands.front()->get_name());
  const CLI::App* const also = extended(app);
  const std::string word = option.substr(std::min(option.find_first_not_of('-'), option.size()));
  std::vector<std::string_view> names;
  for (const CLI::App* each_app : {&command, also})
    if (each_app != nullptr)
      for (const CLI::Option* each : each_app->get_options())
        names.insert(names.end(), each->get_lnames().begin(), each->get_lnames().end());
  if (const std::string_view near = nearest(word, names); !near.empty())
    return usage_error(fmt::format("unknown option {}", shown_name(option)),
                       fmt::format("did you mean '--{}'?", near));
  std::string hint = fmt::format("'{}' lists them", help_command(app, command));
  if (also != nullptr)
    hint = fmt::format("'{}' lists its own, '{}' the others", help_command(app, *also),
                       help_command(app, app));
  // A word that is in the help of an option can be shown as it is: it has no control characters.
  std::string about;
  for (const CLI::Option* each : command.get_options())
    if (word.size() > 3 && each->get_description().find(word) != std::string::npos)
      about += " " + each->get_name();
  if (!about.empty()) hint += fmt::format("; about '{}':{}", word, about);
  return usage_error(fmt::format("unknown option {}", shown_name(option)), std::move(hint));
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

// Returns an error for the first argument that no option took. CLI11 only names such arguments if
// there is no other error. So it would report a misspelt subcommand as a missing one.
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

// Rewords CLI11's messages "--batch: At Most 1 required but received 2" and "--batch: 1 required
// TEXT missing".
Error wrong_count(const std::string& problem, std::string hint) {
  const std::string option = problem.substr(0, problem.find(": "));
  if (problem.find(": At Most") != problem.npos)
    return usage_error(option + " is given twice", "remove one of them");
  return usage_error(problem.ends_with(" missing") ? option + " has no value" : problem,
                     std::move(hint));
}

// Rewords CLI11's other errors, and adds a hint.
Error other_error(const CLI::App& app, const CLI::ParseError& problem) {
  const auto commands = app.get_subcommands();
  if (commands.size() < app.get_require_subcommand_min())
    return usage_error("no command given",
                       fmt::format("one of: {}", fmt::join(command_names(app), " ")));
  const CLI::App& command = commands.empty() ? app : *commands.front();
  if (problem.get_name() == "ArgumentMismatch")
    return wrong_count(problem.what(), help_command(app, command));
  std::string what = problem.what(), missing;
  for (const CLI::Option* option : command.get_options())
    if (option->get_required() && option->count() == 0)
      missing += (missing.empty() ? "" : ", ") + option->get_name();
  if (missing.find(',') != missing.npos && problem.get_name() == "RequiredError")
    what = missing + " are required";  // CLI11 names the first one
  return usage_error(std::move(what), help_command(app, command));
}

constexpr const char* kNoMemory = "out of memory";

[[noreturn]] void leave(ErrorKind kind, const char* what) {
  std::array<char, 2000> text;
  const auto end = fmt::format_to_n(text.begin(), text.size() - 1, "error: {}", what).out;
  std::replace_if(
      text.begin(), end, [](char each) { return std::iscntrl(static_cast<unsigned char>(each)); },
      '?');
  *end = '\n';
  [[maybe_unused]] const auto written =
      ::write(STDERR_FILENO, text.data(), static_cast<std::size_t>(end + 1 - text.begin()));
  say_farewell(what);
  _exit(exit_code(kind));
}

// A thread that throws may hold the log's lock, and memory may be exhausted. So leave() does not
// use the log. Only the first such thread prints its message; others wait for the process to end.
[[noreturn]] void leave_with_exception() {
  static std::atomic_flag leaving;
  while (leaving.test_and_set()) ::pause();
  if (std::current_exception() == nullptr) std::abort();
  try {
    throw;
  } catch (const std::bad_alloc&) {
    leave(ErrorKind::out_of_memory, kNoMemory);
  } catch (const std::exception& problem) {
    leave(ErrorKind::failed, problem.what());
  } catch (...) {
    std::abort();
  }
}

}  // namespace

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (!lines.back().empty() && lines.back().size() + 1 + end > width) lines.emplace_back();
    lines.back() += lines.back().empty() ? "" : " ";
    lines.back() += text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

void use_grouped_help(CLI::App& app) { app.formatter(std::make_shared<GroupedHelp>()); }

std::optional<int> read_command_line(CLI::App& app, int argc, const char* const* argv) {
  std::optional<Error> refusal;
  try {
    app.parse(argc, argv);
    refusal = misplaced_option(app);
  } catch (const CLI::Success& help_or_version) {
    app.exit(help_or_version);
    return kSuccess;
  } catch (const Error& refused) {  // by a callback of the program
    refusal = misplaced_option(app);
    if (!refusal) refusal = refused;
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
    log::error("{}", kNoMemory);
    return exit_code(ErrorKind::out_of_memory);
  } catch (const std::exception& problem) {
    log::error("{}", problem.what());
    return exit_code(ErrorKind::failed);
  }
}

void end_in_order_on_exceptions() { std::set_terminate(leave_with_exception); }

CLI::Validator within(double least, double most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return "";
    return fmt::format("{} is no number from {:g} to {:g}", text, least, most);
  };
  return {check, fmt::format("[{:g} - {:g}]", least, most)};
}

}  // namespace omni
