// This header has the table of a command's options, with one row for each. The rows read the
// command line, and make --help, the manual page and the completions.
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

namespace CLI {  // its header takes seconds to compile
class App;
}  // namespace CLI

namespace omni {

// Returns the number in the text, if it is one from 1 to `most`.
std::optional<int> count_in(std::string_view text, int most);

// Returns what is wrong with a value; "": nothing. A check may rewrite the value.
using Check = std::function<std::string(std::string& value)>;

Check range(std::int64_t least, std::int64_t most);
Check number(double least, double most);  // refuses "nan"
// Replaces CLI11's own check, which reads -1 as 18446744073709551615, and 010 as 8.
Check whole_number(std::uint64_t least = 0,
                   std::uint64_t most = std::numeric_limits<std::uint64_t>::max());
std::string not_empty(std::string& value);
std::string not_blank(std::string& value);  // one word, not blank
std::string class_count(std::string& value);

// A Taker is a function that takes the value. If there are words, other values are refused.
struct Taker {
  std::vector<std::string> words{};
  std::function<void(const std::string& value)> take;
};

// Makes a target that takes one of several words and sets its meaning.
template <class T>
Taker choice(T& target, const std::map<std::string, std::type_identity_t<T>>& meanings) {
  Taker taker{.take = [&target, meanings](const auto& word) { target = meanings.at(word); }};
  for (const auto& [word, meaning] : meanings) taker.words.push_back(word);
  return taker;
}

using Target = std::variant<bool*, int*, std::uint64_t*, double*, std::string*, std::optional<int>*,
                            std::optional<std::uint64_t>*, std::optional<double>*,
                            std::vector<std::string>*, std::vector<std::uint64_t>*, Taker>;

// An OtherOption is another option, as "--arrivals", or an option with one value, as "--arrivals
// virtual".
struct OtherOption {
  std::string option;
  std::string why{}, todo{};  // the message; "": CLI11's own
};

struct OptionRules {
  Check check{};
  std::vector<std::string> words{};  // the allowed values; empty: all
  std::vector<OtherOption> needs{}, excludes{};
  bool required = false;
  std::string unless{};  // the option with which this required one may be missing; "": none
  bool shows_default = false;
  bool last_counts = false;     // true: may be repeated, and the last value counts
  bool separated = false;       // true: several values, with commas between them
  bool joined = false;          // true: may be repeated, and the values are lines of one text
  std::string without_value{};  // used if the value is left out; "": the value is required
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
  // Sets the title of the rows that follow.
  void group(std::string title) { group_ = std::move(title); }
  // Adds a row. `name` includes the name of the value, as "--net FILE".
  void operator()(const std::string& name, Target target, OptionRules rules, std::string help);
  void operator()(const std::string& name, Target target, std::string help) {
    (*this)(name, std::move(target), {}, std::move(help));
  }
  const std::vector<OptionRow>& rows() const { return rows_; }

 private:
  std::string group_;
  std::vector<OptionRow> rows_;
};

// Makes the table by describe(table, arguments). That is a template, so only code that reads a
// command line compiles it.
template <class Arguments>
OptionTable table_of(Arguments& arguments) {
  OptionTable table;
  describe(table, arguments);
  return table;
}

// Adds the options to CLI11. Options that exclude each other are refused later, by
// read_command_line().
void add_options(CLI::App& app, const OptionTable& table);

// GivenOptions are the names of options that are given.
struct GivenOptions {
  std::vector<std::string> all, once;  // `once`: options that may not be repeated
};

// Finds the options of the table in the words. Returns an exit code on failure, as
// read_command_line() does.
std::optional<int> read_options(const OptionTable& table, const std::vector<std::string>& words,
                                GivenOptions& given);

}  // namespace omni
