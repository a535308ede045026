// The table of options: a command has one row for each. The command line is read by the rows;
// --help, the manual page and the completions show them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace CLI {  // its header takes seconds to compile, and few need it
class App;
}  // namespace CLI

namespace omni {

// From 1 to `most`, and nothing else in the text.
std::optional<int> count_in(std::string_view text, int most);

// What is wrong with a value; "": nothing. May rewrite the value.
using Check = std::function<std::string(std::string& value)>;

Check range(std::int64_t least, std::int64_t most);
Check number(double least, double most);  // "nan" is none
// CLI11 itself makes 18446744073709551615 of -1, and 8 of 010.
Check whole_number(std::uint64_t least = 0,
                   std::uint64_t most = std::numeric_limits<std::uint64_t>::max());
std::string not_empty(std::string& value);
std::string not_blank(std::string& value);  // one word
std::string class_count(std::string& value);

// A function takes the value: one of a few words, unless there are none.
struct Taker {
  std::vector<std::string> words{};
  std::function<void(const std::string& value)> take;
};

// Words that each have a meaning.
template <class T>
Taker choice(T& target, const std::map<std::string, std::type_identity_t<T>>& meanings) {
  Taker taker{.take = [&target, meanings](const auto& word) { target = meanings.at(word); }};
  for (const auto& [word, meaning] : meanings) taker.words.push_back(word);
  return taker;
}

using Target = std::variant<bool*, int*, std::uint64_t*, double*, std::string*, std::optional<int>*,
                            std::optional<std::uint64_t>*, std::optional<double>*,
                            std::vector<std::string>*, std::vector<std::uint64_t>*, Taker>;

// Another option: "--arrivals", or with this value alone: "--arrivals virtual".
struct OtherOption {
  std::string option;
  std::string why{}, todo{};  // what is said; "": as CLI11 says it
};

struct OptionRules {
  Check check{};
  std::vector<std::string> words{};  // no other values
  std::vector<OtherOption> needs{}, excludes{};
  bool required = false;
  bool shows_default = false;
  bool last_counts = false;     // may be repeated
  bool separated = false;       // values, by commas
  std::string without_value{};  // stands for a value that is left out; "": none may be
};

struct OptionRow {
  std::string name;   // "--net", "-q,--quiet", "NAME", "images,--image"
  std::string value;  // "FILE"
  std::string group, help;
  Target target;
  OptionRules rules;
};

class OptionTable {
 public:
  // Of the rows that follow.
  void group(std::string title) { group_ = std::move(title); }
  // `name`: with the name of the value, "--net FILE".
  void operator()(const std::string& name, Target target, OptionRules rules, std::string help);
  void operator()(const std::string& name, Target target, std::string help) {
    (*this)(name, std::move(target), {}, std::move(help));
  }
  const std::vector<OptionRow>& rows() const { return rows_; }

 private:
  std::string group_;
  std::vector<OptionRow> rows_;
};

// By describe(table, arguments). That is a template for each kind of arguments, which only those
// who read a command line have to compile.
template <class Arguments>
OptionTable table_of(Arguments& arguments) {
  OptionTable table;
  describe(table, arguments);
  return table;
}

// read_command_line() refuses what the rows exclude.
void add_options(CLI::App& app, const OptionTable& table);

// Names of options.
struct GivenOptions {
  std::vector<std::string> all, once;  // once: may not be repeated
};

// The words of a training or command that has this table; else as read_command_line().
std::optional<int> read_options(const OptionTable& table, const std::vector<std::string>& words,
                                GivenOptions& given);

}  // namespace omni
