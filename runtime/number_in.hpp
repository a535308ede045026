// A number that is all of a text: nothing before it, nothing after it, and it fits its type.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace omni {

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace omni
