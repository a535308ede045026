// Values of untrusted JSON into variables: each reader says what is wrong with a value, or nothing.
#pragma once

// Without its throwing conversions an unchecked value does not compile.
#define SIMDJSON_EXCEPTIONS 0

#include <fmt/format.h>
#include <simdjson.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/trace/records.hpp"

namespace omni::perf::json {

using Value = simdjson::ondemand::value;
using Problem = std::string;  // continues "the key ..."; empty: none

constexpr std::size_t kLongestText = 4096;
constexpr std::size_t kMaxTexts = 64;
constexpr std::uint32_t kMaxId = 1U << 24;
// Sums of many times stay far from overflow: three years in nanoseconds.
constexpr trace::Nanoseconds kLatest = 100'000'000'000'000'000;

template <class T>
Problem whole(Value& value, T& target, std::int64_t min, std::int64_t max) {
  std::int64_t number = 0;
  if (value.get_int64().get(number)) return "is no whole number";
  if (number < min || number > max)
    return fmt::format("is {}, which is not within {} and {}", number, min, max);
  target = static_cast<T>(number);
  return {};
}

template <class T>
Problem id(Value& value, T& target) {
  return whole(value, target, 0, kMaxId - 1);
}

inline Problem time(Value& value, trace::Nanoseconds& target) {
  return whole(value, target, 0, kLatest);
}

Problem number(Value& value, double& target, double min, double max);
Problem text(Value& value, std::string& target, std::size_t longest = kLongestText);
Problem texts(Value& value, std::vector<std::string>& target);  // at most kMaxTexts
Problem ids(Value& value, std::vector<std::int32_t>& target);
Problem task_times(Value& value, trace::TaskTimes& target);
Problem accesses(Value& value, trace::AccessMode mode, std::vector<trace::Access>& target);

// null: `target` becomes NaN.
Problem number_or_null(Value& value, double& target, double min, double max);

}  // namespace omni::perf::json
