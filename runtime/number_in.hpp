// Numbers from texts and for texts.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace omni {

// A number that is all of a text: nothing before it, nothing after it, and it fits its type.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Where numbers are doubles: the double nearest to the decimal number that the float was read from,
// or would be written as: 0.1, not 0.10000000149011612.
inline double shortest_decimal(float value) { return std::stod(fmt::format("{}", value)); }

// For JSON that people read: a mean of floats with the digits of a float.
inline double shown_single(double value) { return shortest_decimal(static_cast<float>(value)); }

}  // namespace omni
