#include "scheduling/forecast/update_ratios.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "runtime/files.hpp"
#include "scheduling/groups/compute_groups.hpp"

namespace omni {
namespace {

constexpr std::uint64_t kMostRatioBytes = 1 << 16;

}  // namespace

std::vector<UpdateRatio> UpdateRatios::read() const {
  const Result<std::string> text = read_file(path_, kMostRatioBytes);
  if (!text) return {};
  const auto list = nlohmann::json::parse(*text, nullptr, false);
  std::vector<UpdateRatio> counts;
  if (!list.is_array()) return {};
  for (const auto& each : list) {
    const auto number = [&](const char* key, double fallback) {
      const bool there = each.is_object() && each.contains(key) && each[key].is_number();
      return there && each[key].get<double>() > 0 ? each[key].get<double>() : fallback;
    };
    const double groups = number("groups", 0);
    if (groups < 1 || groups > kMostGroups) return {};
    counts.push_back({.groups = static_cast<int>(groups),
                      .ratio = number("ratio", std::numeric_limits<double>::infinity()),
                      .error = number("error", 0)});
  }
  return counts;
}

Status UpdateRatios::write(const std::vector<UpdateRatio>& counts) const {
  auto list = nlohmann::ordered_json::array();
  for (const UpdateRatio& each : counts) {
    nlohmann::ordered_json object{{"groups", each.groups}};
    if (std::isfinite(each.ratio)) {
      object["ratio"] = each.ratio;
      object["error"] = each.error;
    }
    list.push_back(object);
  }
  std::error_code problem;
  std::filesystem::create_directories(path_.parent_path(), problem);
  return write_file_atomically(path_, list.dump(1) + "\n");
}

std::optional<std::size_t> first_below(std::span<const double> losses, std::size_t window,
                                       double target) {
  double sum = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    sum += losses[i];
    if (i >= window) sum -= losses[i - window];
    if (i + 1 >= window && sum / static_cast<double>(window) <= target) return i + 1;
  }
  return {};
}

UpdateRatio ratio_of_updates(int groups, std::span<const double> one,
                             std::span<const double> several, std::size_t window) {
  const auto last = one.last(window);
  const auto n = static_cast<double>(window);
  const double target = std::accumulate(last.begin(), last.end(), 0.0) / n;
  double squares = 0;
  for (const double loss : last) squares += (loss - target) * (loss - target);
  const double noise = std::sqrt(squares / (n - 1) / n);
  UpdateRatio count{.groups = groups, .ratio = std::numeric_limits<double>::infinity(), .error = 0};
  const auto first = first_below(one, window, target), end = first_below(several, window, target);
  if (!first || !end) return count;
  count.ratio = static_cast<double>(*end) / static_cast<double>(*first);
  const auto early = first_below(several, window, target + noise),
             late = first_below(several, window, target - noise);
  const auto to = late.value_or(several.size()), from = early.value_or(*end);
  count.error = static_cast<double>(to - from) / 2 / static_cast<double>(*first);
  return count;
}

}  // namespace omni
