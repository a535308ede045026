#include "perf/trace/json_values.hpp"

#include <array>
#include <limits>

namespace omni::perf::json {

Problem number(Value& value, double& target, double min, double max) {
  if (value.get_double().get(target)) return "is no number";
  if (!(target >= min && target <= max))
    return fmt::format("is {}, which is not within {} and {}", target, min, max);
  return {};
}

Problem number_or_null(Value& value, double& target, double min, double max) {
  target = std::numeric_limits<double>::quiet_NaN();
  bool nothing = false;
  if (value.is_null().get(nothing)) return "is no number";
  return nothing ? Problem() : number(value, target, min, max);
}

Problem text(Value& value, std::string& target, std::size_t longest) {
  std::string_view letters;
  if (value.get_string().get(letters)) return "is no text";
  if (letters.size() > longest) return fmt::format("is longer than {} bytes", longest);
  target = letters;
  return {};
}

Problem texts(Value& value, std::vector<std::string>& target) {
  simdjson::ondemand::array list;
  if (value.get_array().get(list)) return "is no list";
  for (auto entry : list) {
    Value item;
    if (entry.get(item)) return "is no list of texts";
    if (target.size() == kMaxTexts) return fmt::format("has more than {} entries", kMaxTexts);
    if (Problem problem = text(item, target.emplace_back()); !problem.empty()) return problem;
  }
  return {};
}

Problem ids(Value& value, std::vector<std::int32_t>& target) {
  simdjson::ondemand::array list;
  if (value.get_array().get(list)) return "is no list";
  for (auto entry : list) {
    Value item;
    if (entry.get(item)) return "is no list of numbers";
    if (Problem problem = id(item, target.emplace_back()); !problem.empty()) return problem;
  }
  return {};
}

Problem task_times(Value& value, trace::TaskTimes& target) {
  const std::array steps = {&target.submitted, &target.ready,       &target.pop_start,
                            &target.popped,    &target.fetch_start, &target.fetch_end,
                            &target.start,     &target.end,         &target.released};
  constexpr const char* kNotNine = "does not hold nine times";
  simdjson::ondemand::array list;
  if (value.get_array().get(list)) return "is no list";
  std::size_t count = 0;
  for (auto entry : list) {
    Value item;
    if (entry.get(item) || count == steps.size()) return kNotNine;
    if (Problem problem = time(item, *steps[count]); !problem.empty()) return problem;
    if (count > 0 && *steps[count] < *steps[count - 1])
      return fmt::format("goes back in time from {} to {}", *steps[count - 1], *steps[count]);
    ++count;
  }
  return count == steps.size() ? Problem() : kNotNine;
}

Problem accesses(Value& value, trace::AccessMode mode, std::vector<trace::Access>& target) {
  simdjson::ondemand::array list;
  if (value.get_array().get(list)) return "is no list";
  for (auto entry : list) {
    Value item;
    trace::Access access{.data = 0, .mode = mode};
    if (entry.get(item)) return "is no list of numbers";
    if (Problem problem = id(item, access.data); !problem.empty()) return problem;
    target.push_back(access);
  }
  return {};
}

}  // namespace omni::perf::json
