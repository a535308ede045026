#include "scheduling/groups/momentum.hpp"

#include <algorithm>
#include <cmath>

namespace omni {
namespace {

// Below it an update undoes most of the one before; nobody tuned a network to less than -0.675.
constexpr double kLowest = -0.7;

}  // namespace

double implicit_of_staleness(double mean_staleness) {
  return mean_staleness / (1 + mean_staleness);
}

double implicit_of_groups(int groups) { return implicit_of_staleness(groups - 1); }

Momentum compensate(double tuned, double implicit) {
  return {tuned, std::max(1 - (1 - tuned) / (1 - implicit), std::min(kLowest, tuned)), implicit};
}

bool is_kept(const Momentum& momentum) {
  return std::abs(momentum.total() - momentum.tuned) < 1e-9;
}

double statistical_penalty(const Momentum& momentum) {
  return std::max(1.0, (1 - momentum.tuned) / (1 - momentum.total()));
}

MomentumControl::MomentumControl(Compensation compensation, double tuned, int groups, bool stale)
    : compensation_(compensation),
      tuned_(tuned),
      mean_staleness_(static_cast<std::size_t>(groups), stale ? groups - 1 : 0) {}

Momentum MomentumControl::next(int group) const {
  const double implicit = implicit_of_staleness(mean_staleness_[static_cast<std::size_t>(group)]);
  if (compensation_ == Compensation::off) return {tuned_, tuned_, implicit};
  return compensate(tuned_, implicit);
}

void MomentumControl::observe(int group, std::int64_t staleness) {
  constexpr double kWeight = 1.0 / 16;
  double& mean = mean_staleness_[static_cast<std::size_t>(group)];
  if (compensation_ == Compensation::measured)
    mean += kWeight * (static_cast<double>(staleness) - mean);
}

}  // namespace omni
