// These types describe options that strategies and pilots declare in their own files, and the
// values of those options.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace omni {

// OptionRange says which values an option may take. The bounds are for whole numbers and numbers.
struct OptionRange {
  enum class Kind { flag, text, whole, number } kind = Kind::flag;
  double least = 0, most = 1e12;
};
constexpr OptionRange whole_from(double least, double most = 1e12) {
  return {OptionRange::Kind::whole, least, most};
}
constexpr OptionRange number_from(double least, double most) {
  return {OptionRange::Kind::number, least, most};
}

struct DeclaredOption {
  std::string_view name, value;  // "--alpha", and a placeholder of its value in the help: "SHARE"
  std::string_view help;
  OptionRange range{};
  std::string_view group = "Strategies";  // title in the help
};

struct OptionValue {
  bool flag = false;
  std::optional<double> number{};
  std::string text{};
  bool given() const { return flag || number || !text.empty(); }
};

struct OptionValues {
  std::map<std::string, OptionValue, std::less<>> by_name{};

  // Returns the value that the user gave for the option, or its default after make_strategy();
  // null: there is none.
  const OptionValue* given(const DeclaredOption& option) const {
    const auto found = by_name.find(option.name);
    return found != by_name.end() && found->second.given() ? &found->second : nullptr;
  }
  // Returns the first of these options that has a value; null: none has.
  const DeclaredOption* first_given(std::span<const DeclaredOption> options) const {
    for (const DeclaredOption& option : options)
      if (given(option) != nullptr) return &option;
    return nullptr;
  }
  std::optional<double> number(const DeclaredOption& option) const {
    const OptionValue* const value = given(option);
    return value != nullptr ? value->number : std::nullopt;
  }
};

}  // namespace omni
