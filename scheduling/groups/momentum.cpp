#include "scheduling/groups/momentum.hpp"

#include <algorithm>

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

double statistical_penalty(const Momentum& momentum) {
  return std::max(1.0, (1 - momentum.tuned) / (1 - momentum.total()));
}

MomentumControl::MomentumControl(Compensation compensation, double tuned, int groups)
    : compensation_(compensation),
      tuned_(tuned),
      mean_staleness_(groups - 1),
      weight_(1.0 / (16.0 * groups)) {}

Momentum MomentumControl::next() const {
  const double implicit = implicit_of_staleness(mean_staleness_);
  if (compensation_ == Compensation::off) return {tuned_, tuned_, implicit};
  return compensate(tuned_, implicit);
}

void MomentumControl::observe(std::int64_t staleness) {
  if (compensation_ == Compensation::measured)
    mean_staleness_ += weight_ * (static_cast<double>(staleness) - mean_staleness_);
}

}  // namespace omni
