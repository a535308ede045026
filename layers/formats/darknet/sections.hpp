// This header has the sections of a cfg file, with their options and lines. It reads and checks the
// options of a section. The keys that a section understands are declared once, as data. Reading,
// "did you mean" and `omni-run layers` use this declaration.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

inline constexpr int kCommandLine = 0;  // the "line" of options that no file holds

struct Option {
  std::string key, value;
  int line = kCommandLine;
};

// A Section is one [section] of the file: a layer, or [net].
struct Section {
  std::string type;  // as written, lower case: "convolutional", "conv", ...
  std::string file;
  int line = 0;
  std::vector<Option> options;

  const Option* find(std::string_view key) const {  // the last one wins, as in Darknet
    const auto last = std::find_if(options.rbegin(), options.rend(),
                                   [&](const Option& option) { return option.key == key; });
    return last == options.rend() ? nullptr : &*last;
  }
  std::string where() const { return fmt::format("{}:{}", file, line); }
  std::string where(const Option& option) const {
    return option.line == kCommandLine ? "command line" : fmt::format("{}:{}", file, option.line);
  }
};

// An Effect says what a key does in this program. `none`: the key is accepted because Darknet files
// have it, and another value than the default causes a warning. `refused`: another value than the
// default is an error, and `help` says why.
enum class Effect { full, none, refused };

struct Key {
  std::string_view name;
  std::string_view fallback;  // default as the user would write it; "": there is none
  std::string_view help;
  Effect effect = Effect::full;
};

// Returns `keys` together with the keys without effect, which `in_vain` lists as "name=default
// name=default".
std::vector<Key> with_keys_in_vain(std::span<const Key> keys, std::string_view in_vain);

// An OptionReader reads one section. The first problem is kept, and later reads return their
// defaults. So a layer reads all its options first, and then checks status() once.
class OptionReader {
 public:
  OptionReader(const Section& section, std::span<const Key> keys);

  // Notes that the command line sets `key`. Then has(key) is true, and where(key) is "command
  // line".
  void set_elsewhere(std::string_view key) { elsewhere_.push_back(key); }
  bool has(std::string_view key) const;
  std::string where(std::string_view key) const;  // of the section, when the key is absent
  int integer(std::string_view key, int fallback, int low,
              int high = std::numeric_limits<int>::max());
  float real(std::string_view key, float fallback, float low = -std::numeric_limits<float>::max(),
             float high = std::numeric_limits<float>::max());
  bool flag(std::string_view key, bool fallback);   // 0 or 1
  std::string text(std::string_view key) const;     // "": it is absent
  std::vector<int> integers(std::string_view key);  // comma separated
  std::vector<float> reals(std::string_view key);
  // Returns the index of the key's value in `choices`. An unknown value is an error with "did you
  // mean".
  int choice(std::string_view key, std::string_view fallback,
             std::span<const std::string_view> choices);

  // Refuses these values of `key`, which Darknet knows but which are not supported. `why` is the
  // hint of the error.
  void refuse_values(std::string_view key, std::initializer_list<std::string_view> values,
                     std::string why);

  // Refuses a key for the reason `what`. If the key is absent, the error names the section.
  void refuse(std::string_view key, std::string what, std::string hint = "");
  // Prints a remark about a key if the section has the key. If `key` is "", the remark is about the
  // section.
  void warn(std::string_view key, std::string_view remark) const;
  // Warns that a key has no effect, for each key that is set to another value than its default.
  void warn_no_effect(std::initializer_list<std::string_view> keys, std::string_view where) const;
  bool failed() const { return failed_; }
  Status status() const;

 private:
  const Option* lookup(std::string_view key) const;  // asserts that the key is declared
  const Section& section_;
  std::span<const Key> keys_;
  std::vector<std::string_view> elsewhere_;
  Error error_;
  bool failed_ = false;
};

// Warns of each unknown key of a section. If `strict`, the first unknown key is an error. A refused
// key is always an error.
Status check_keys(const Section& section, std::span<const Key> keys, bool strict);

}  // namespace omni
