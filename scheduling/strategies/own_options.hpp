// Strategies and pilots declare options in their own files. This header declares the types of those
// options and of the values that a user gave for them.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace omni {

// OptionRange has the values that an option may take.
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

  // Returns the value that the user gave for the option; null if the user gave none.
  const OptionValue* given(const DeclaredOption& option) const {
    const auto found = by_name.find(option.name);
    return found != by_name.end() && found->second.given() ? &found->second : nullptr;
  }
  // Returns the first of these options that the user gave; null if the user gave none.
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
