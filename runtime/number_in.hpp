// This header reads numbers from text, and writes floats with few digits.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace omni {

// Returns the number that `text` is; nullopt if `text` has anything else, or if the number does not
// fit the type.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Returns the double that is nearest to the float's shortest decimal form: 0.1 for 0.1f, where a
// conversion gives 0.10000000149011612.
inline double shortest_decimal(float value) { return std::stod(fmt::format("{}", value)); }

// Returns what to write into JSON that people read: a mean of floats with the digits of a float.
inline double shown_single(double value) { return shortest_decimal(static_cast<float>(value)); }

}  // namespace omni
