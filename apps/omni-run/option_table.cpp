#include "apps/omni-run/option_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>

#include "apps/command_line.hpp"
#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

CLI::Option& bind(CLI::App& app, const OptionRow& row) {
  return *std::visit(
      [&]<class T>(const T& target) {
        if constexpr (std::is_same_v<T, Taker>)
          return app.add_option_function<std::string>(row.name, target.take);
        else if constexpr (std::is_same_v<T, bool*>)
          return app.add_flag(row.name, *target);
        else
          return app.add_option(row.name, *target);
      },
      row.target);
}

CLI::Option& add_row(CLI::App& app, const OptionRow& row) {
  const OptionRules& rules = row.rules;
  CLI::Option& option = bind(app, row);
  option.group(row.group)->required(rules.required && rules.unless.empty());
  if (rules.check) option.transform(CLI::Validator(rules.check, ""));
  if (!rules.words.empty()) option.check(CLI::IsMember(rules.words));
  if (rules.shows_default) option.capture_default_str();
  if (rules.last_counts) option.take_last();
  if (rules.joined) option.join('\n');
  if (!rules.without_value.empty()) option.expected(0, 1)->default_str(rules.without_value);
  if (rules.separated)
    option.delimiter(',');
  else if (option.get_expected_max() > 1 && row.name.starts_with('-'))
    option.take_all()->expected(1);  // one value at a time
  return option;
}

// Returns the option's text in --help. Options that exclude each other name each other.
std::string description(const OptionRow& row, const std::vector<OptionRow>& rows) {
  std::string text = row.value.empty() ? row.help : fmt::format("<{}> {}", row.value, row.help);
  std::vector<std::string> excluded;
  for (const OtherOption& other : row.rules.excludes) excluded.push_back(other.option);
  for (const OptionRow& each : rows)
    for (const OtherOption& other : each.rules.excludes)
      if (other.option == row.name) excluded.push_back(each.name);
  if (!excluded.empty()) text += fmt::format("; not with {}", fmt::join(excluded, ", "));
  for (const OtherOption& other : row.rules.needs) text += "; only with " + other.option;
  if (!row.rules.unless.empty()) text += fmt::format("; this or {} is required", row.rules.unless);
  return text;
}

// Returns whether an option is given, as "--arrivals", or given with a value, as "--arrivals
// virtual".
bool is_given(const CLI::App& app, const std::string& text) {
  const std::size_t blank = text.find(' ');
  const CLI::Option& option = *app.get_option(text.substr(0, blank));
  if (option.count() == 0) return false;
  const std::string& value = option.results().back();
  return blank == text.npos ? !value.empty() : value == text.substr(blank + 1);
}

template <class Usual>
void refuse(const std::string& name, const OtherOption& other) {
  if (other.why.empty()) throw Usual(name, other.option);
  throw Error{ErrorKind::usage, name, other.why, other.todo};
}

}  // namespace

Check range(std::int64_t least, std::int64_t most) { return CLI::Range(least, most); }

Check number(double least, double most) { return within(least, most); }

Check whole_number(std::uint64_t least, std::uint64_t most) {
  return [least, most](std::string& text) -> std::string {
    const auto value = number_in<std::uint64_t>(text);
    if (!value) return "'" + text + "' is not a whole number from 0 to 18446744073709551615";
    text = std::to_string(*value);
    if (*value >= least && *value <= most) return "";
    return fmt::format("Value {} not in range {} to {}", text, least, most);
  };
}

std::string not_empty(std::string& text) { return text.empty() ? "is empty" : ""; }

std::string not_blank(std::string& text) {
  if (text.empty()) return "is empty";
  return text.find_first_of(" \t\r\n\v\f") != text.npos ? "has a blank in it" : "";
}

std::string class_count(std::string& text) {
  constexpr int kMost = 1 << 20;
  const auto count = count_in(text, kMost);
  if (!count) return fmt::format("{} is no number from 1 to {}", shown_name(text), kMost);
  text = std::to_string(*count);
  return "";
}

std::optional<int> count_in(std::string_view text, int most) {
  const auto count = number_in<int>(text);
  return count && *count >= 1 && *count <= most ? count : std::nullopt;
}

void OptionTable::operator()(const std::string& name, Target target, OptionRules rules,
                             std::string help) {
  if (const Taker* const taker = std::get_if<Taker>(&target)) rules.words = taker->words;
  const std::size_t blank = std::min(name.find(' '), name.size());
  const std::string value = name.substr(std::min(blank + 1, name.size()));
  if (!rules.words.empty() && value.find('|') == value.npos)
    help += fmt::format(". One of: {}", fmt::join(rules.words, " "));
  rows_.push_back(
      {name.substr(0, blank), value, group_, std::move(help), std::move(target), std::move(rules)});
}

void add_options(CLI::App& app, const OptionTable& table) {
  std::vector<std::pair<const CLI::Option*, OptionRules>> rules;
  for (const OptionRow& row : table.rows()) {
    CLI::Option& option = add_row(app, row);
    option.description(description(row, table.rows()));
    rules.emplace_back(&option, row.rules);
  }
  app.callback([&app, rules = std::move(rules)] {
    for (const auto& [option, own] : rules) {
      if (option->count() == 0) {
        if (own.required && !own.unless.empty() && !is_given(app, own.unless))
          throw CLI::RequiredError(fmt::format("{} or {}", option->get_name(), own.unless));
        continue;
      }
      for (const OtherOption& other : own.needs)
        if (!is_given(app, other.option)) refuse<CLI::RequiresError>(option->get_name(), other);
      for (const OtherOption& other : own.excludes)
        if (is_given(app, other.option)) refuse<CLI::ExcludesError>(option->get_name(), other);
    }
  });
}

std::optional<int> read_options(const OptionTable& table, const std::vector<std::string>& words,
                                GivenOptions& given) {
  CLI::App app("", "omni-run");
  use_grouped_help(app);
  add_options(app, table);
  std::vector<const char*> pointers{"omni-run"};
  for (const std::string& word : words) pointers.push_back(word.c_str());
  if (const auto code = read_command_line(app, static_cast<int>(pointers.size()), pointers.data()))
    return code;
  for (const CLI::Option* each : app.get_options()) {
    if (each->count() == 0) continue;
    given.all.push_back(each->get_name());
    const auto several = each->get_multi_option_policy();
    if (several == CLI::MultiOptionPolicy::Join ||
        (several == CLI::MultiOptionPolicy::Throw && each->get_items_expected_max() == 1))
      given.once.push_back(each->get_name());
  }
  return std::nullopt;
}

}  // namespace omni
