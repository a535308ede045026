#include "scheduling/forecast/group_plan.hpp"

#include <algorithm>

namespace omni {
namespace {

constexpr double kAsGood = 1.3;  // see GroupPlan::best()

}  // namespace

std::optional<double> GroupPlan::Row::median_measured() const {
  if (measured.empty()) return {};
  std::vector<double> sorted = measured;
  std::ranges::sort(sorted);
  return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
}

int GroupPlan::saturating_groups() const {
  const auto predicted = [this](int groups) {
    return std::ranges::find(rows, groups, &Row::groups)->predicted;
  };
  return smallest_saturating(rows.back().groups, predicted)->groups;
}

const GroupPlan::Row& GroupPlan::best() const {
  const Row& least = *std::ranges::min_element(rows, {}, &Row::total);
  const auto as_good = [&](const Row& row) {
    double error = 0;
    for (const Row* each : {&least, &row})
      if (each->penalty_error) error += *each->penalty_error / *each->penalty;
    return 1 + std::min(error, kAsGood - 1);
  };
  return *std::ranges::find_if(
      rows, [&](const Row& row) { return row.total() <= as_good(row) * least.total(); });
}

std::vector<int> planned_groups(int most) {
  std::vector<int> numbers;
  for (int groups = 1; groups < most; groups *= 2) numbers.push_back(groups);
  numbers.push_back(most);
  return numbers;
}

}  // namespace omni
