#include "scheduling/groups/momentum.hpp"

#include <algorithm>
#include <cmath>

namespace omni {
namespace {

// Below it an update undoes most of the one before; nobody tuned a network to less than -0.675.
constexpr double kLowest = -0.7;

}  // namespace

double implicit_of_groups(int groups) {
  const double mean_staleness = groups - 1;
  return mean_staleness / (1 + mean_staleness);
}

Momentum compensate(double tuned, double implicit) {
  return {tuned, std::max(1 - (1 - tuned) / (1 - implicit), std::min(kLowest, tuned)), implicit};
}

bool is_kept(const Momentum& momentum) {
  return std::abs(momentum.total() - momentum.tuned) < 1e-9;
}

double statistical_penalty(const Momentum& momentum) {
  return std::max(1.0, (1 - momentum.tuned) / (1 - momentum.total()));
}

Momentum momentum_of_groups(Compensation compensation, double tuned, int groups, bool stale) {
  const double implicit = implicit_of_groups(stale ? groups : 1);
  if (compensation == Compensation::off) return {tuned, tuned, implicit};
  return compensate(tuned, implicit);
}

}  // namespace omni
