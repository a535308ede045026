// This file reads options as numbers and words. Every refusal names the line, the value and what
// was expected instead.
#include "layers/formats/darknet/sections.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "runtime/log.hpp"
#include "runtime/nearest.hpp"
#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

const Key* declared(std::span<const Key> keys, std::string_view name) {
  auto it = std::ranges::find(keys, name, &Key::name);
  return it == keys.end() ? nullptr : &*it;
}

// Returns the whole text as a number. Returns nothing for "", "3x", "nan", "inf" and numbers that
// do not fit.
template <class T>
std::optional<T> number(std::string_view text) {
  const auto value = number_in<T>(text);
  if constexpr (std::is_floating_point_v<T>)
    if (value && !std::isfinite(*value)) return std::nullopt;
  return value;
}

// Numbers are parsed in a wider type than they are kept in. So 2147483648 is "out of range" rather
// than "not a number", and 1e-50 becomes a zero instead of an error.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;

template <class T>
bool within(Wide<T> value, T low, T high) {
  return value >= low && value <= high;
}

template <class T>
std::string expected(std::string_view noun, T low, T high) {
  bool any_low = low == std::numeric_limits<T>::lowest();
  bool any_high = high == std::numeric_limits<T>::max();
  if (any_low && any_high) return fmt::format("expected {}", noun);
  if (any_high) return fmt::format("expected {} of at least {}", noun, low);
  if (any_low) return fmt::format("expected {} of at most {}", noun, high);
  return fmt::format("expected {} from {} to {}", noun, low, high);
}

std::string setting(const Option& option) { return shown_name(option.key + "=" + option.value); }

template <class T>
std::optional<std::vector<T>> list(std::string_view text) {
  std::vector<T> values;
  for (;;) {
    std::size_t comma = text.find(',');
    auto value = number<Wide<T>>(text.substr(0, comma));
    constexpr T kLowest = std::numeric_limits<T>::lowest(),
                kHighest = std::numeric_limits<T>::max();
    if (!value || !within(*value, kLowest, kHighest)) return std::nullopt;
    values.push_back(static_cast<T>(*value));
    if (comma == text.npos) return values;
    text.remove_prefix(comma + 1);
  }
}

// Returns whether an option has its default value, even if it is written differently, as .0 for 0.
bool is_default(const Option& option, const Key& key) {
  const auto value = number<double>(option.value);
  return option.value == key.fallback || (value && value == number<double>(key.fallback));
}

}  // namespace

std::vector<Key> with_keys_in_vain(std::span<const Key> keys, std::string_view in_vain) {
  std::vector<Key> all(keys.begin(), keys.end());
  while (!in_vain.empty()) {
    const std::size_t sign = in_vain.find('='), end = std::min(in_vain.find(' '), in_vain.size());
    all.push_back(
        {in_vain.substr(0, sign), in_vain.substr(sign + 1, end - sign - 1), "", Effect::none});
    in_vain.remove_prefix(std::min(end + 1, in_vain.size()));
  }
  return all;
}

OptionReader::OptionReader(const Section& section, std::span<const Key> keys)
    : section_(section), keys_(keys) {}

const Option* OptionReader::lookup(std::string_view key) const {
  assert(declared(keys_, key) && "a layer reads only the keys that it declares");
  return section_.find(key);
}

bool OptionReader::has(std::string_view key) const {
  return lookup(key) != nullptr || std::ranges::find(elsewhere_, key) != elsewhere_.end();
}

std::string OptionReader::where(std::string_view key) const {
  if (std::ranges::find(elsewhere_, key) != elsewhere_.end()) return "command line";
  const Option* option = section_.find(key);
  return option ? section_.where(*option) : section_.where();
}

int OptionReader::integer(std::string_view key, int fallback, int low, int high) {
  const Option* option = lookup(key);
  if (failed_ || !option) return fallback;
  auto value = number<Wide<int>>(option->value);
  if (value && within(*value, low, high)) return static_cast<int>(*value);
  refuse(key, setting(*option) + (value ? " is out of range" : " is not a whole number"),
         expected("a whole number", low, high));
  return fallback;
}

float OptionReader::real(std::string_view key, float fallback, float low, float high) {
  const Option* option = lookup(key);
  if (failed_ || !option) return fallback;
  auto value = number<Wide<float>>(option->value);
  if (value && within(*value, low, high)) return static_cast<float>(*value);
  refuse(key, setting(*option) + (value ? " is out of range" : " is not a finite number"),
         expected("a number", low, high));
  return fallback;
}

bool OptionReader::flag(std::string_view key, bool fallback) {
  const Option* option = lookup(key);
  if (failed_ || !option) return fallback;
  if (option->value == "0" || option->value == "1") return option->value == "1";
  refuse(key, setting(*option) + " is neither on nor off", "expected 0 or 1");
  return fallback;
}

std::vector<int> OptionReader::integers(std::string_view key) {
  const Option* option = lookup(key);
  if (failed_ || !option) return {};
  if (auto values = list<int>(option->value)) return *values;
  refuse(key, setting(*option) + " is not a list of whole numbers",
         "expected whole numbers separated by commas");
  return {};
}

std::vector<float> OptionReader::reals(std::string_view key) {
  const Option* option = lookup(key);
  if (failed_ || !option) return {};
  if (auto values = list<float>(option->value)) return *values;
  refuse(key, setting(*option) + " is not a list of numbers",
         "expected numbers separated by commas");
  return {};
}

std::string OptionReader::text(std::string_view key) const {
  const Option* option = lookup(key);
  return option == nullptr ? "" : option->value;
}

int OptionReader::choice(std::string_view key, std::string_view fallback,
                         std::span<const std::string_view> choices) {
  auto index = [&](std::string_view word) {
    return static_cast<int>(std::ranges::find(choices, word) - choices.begin());
  };
  int count = static_cast<int>(choices.size());
  assert(index(fallback) < count && "the default is one of the choices");
  const Option* option = lookup(key);
  if (failed_ || !option) return index(fallback);
  if (int found = index(option->value); found < count) return found;
  std::string_view near = nearest(option->value, choices);
  refuse(key, fmt::format("unknown {} {}", key, shown_name(option->value)),
         near.empty() ? fmt::format("known: {}", fmt::join(choices, " "))
                      : fmt::format("did you mean '{}'?", near));
  return index(fallback);
}

void OptionReader::refuse_values(std::string_view key,
                                 std::initializer_list<std::string_view> values, std::string why) {
  const Option* option = lookup(key);
  if (option && std::ranges::find(values, option->value) != values.end())
    refuse(key, fmt::format("{} {} is not supported", key, option->value), std::move(why));
}

void OptionReader::refuse(std::string_view key, std::string what, std::string hint) {
  if (failed_) return;
  error_ = {ErrorKind::usage, where(key), std::move(what), std::move(hint)};
  failed_ = true;
}

void OptionReader::warn(std::string_view key, std::string_view remark) const {
  if (key.empty())
    log::warn_once("{}: {}", section_.where(), remark);
  else if (has(key))
    log::warn_once("{}: {} {}", where(key), shown_name(key), remark);
}

void OptionReader::warn_no_effect(std::initializer_list<std::string_view> keys,
                                  std::string_view where) const {
  for (const std::string_view key : keys)
    if (const Option* option = lookup(key); option && !is_default(*option, *declared(keys_, key)))
      warn(key, fmt::format("has no effect {}", where));
}

Status OptionReader::status() const { return failed_ ? Status(error_) : Status(); }

Status check_keys(const Section& section, std::span<const Key> keys, bool strict) {
  std::vector<std::string_view> names(keys.size());
  std::transform(keys.begin(), keys.end(), names.begin(), [](const Key& key) { return key.name; });
  for (const Option& option : section.options) {
    const Key* key = declared(keys, option.key);
    if (key && key->effect == Effect::refused && !is_default(option, *key))
      return Error{ErrorKind::usage, section.where(option), setting(option) + " is not supported",
                   std::string(key->help)};
    if (key && key->effect == Effect::none && !is_default(option, *key))
      log::warn_once("{}: {} has no effect (it is accepted because Darknet files carry it)",
                     section.where(option), shown_name(option.key));
    if (key) continue;
    std::string_view near = nearest(option.key, names);
    Error unknown{ErrorKind::usage, section.where(option),
                  fmt::format("unknown key {}", shown_name(option.key)),
                  near.empty()
                      ? fmt::format("`omni-run layers` lists the keys of [{}]", section.type)
                      : fmt::format("did you mean '{}'?", near)};
    if (strict) return unknown;
    log::warn_once("{}", unknown.message());
  }
  return {};
}

}  // namespace omni
