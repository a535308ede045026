#include "scheduling/groups/momentum.hpp"

#include <algorithm>
#include <cmath>

namespace omni {
namespace {

// Below it an update undoes most of the one before; nobody tuned a network to less than -0.675.
constexpr double kLowest = -0.7;

// Of the measured compensation: rounds of all groups that the mean is over; standard errors that
// are no proof; the part of the way to the momentum aimed at that an update goes, YellowFin's.
constexpr double kRounds = 16, kErrors = 2, kGain = 0.01;
constexpr double kMostImplicit = 0.99;  // 1 would leave nothing to choose

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
      groups_(stale ? groups : 1),
      momentum_{tuned, tuned, implicit_of_groups(groups_)},
      mean_staleness_(groups_ - 1),
      path_(groups_) {
  if (compensation != Compensation::off) momentum_ = compensate(tuned, momentum_.implicit_part);
}

void MomentumControl::observe(std::int64_t staleness, const PathPoint& path) {
  if (!measures()) return;
  mean_staleness_ += (static_cast<double>(staleness) - mean_staleness_) / (kRounds * groups_);
  if (!path.values.empty()) path_.add(path);
  momentum_.implicit_part = measured_implicit();
  const double aim = compensate(momentum_.tuned, momentum_.implicit_part).explicit_part;
  momentum_.explicit_part += kGain * (aim - momentum_.explicit_part);
}

// What the path tells is followed only where it is surely more than the staleness tells. Where
// groups take turns it is less, as noise has less momentum there than what drifts; giving that back
// to the updates made cifar10-quick need half as many more of them, and did not always train it.
double MomentumControl::measured_implicit() const {
  const double implicit = implicit_of_staleness(mean_staleness_);
  const auto by_path = path_.estimate();
  if (!by_path) return implicit;
  return std::max(implicit, std::min(by_path->value - kErrors * by_path->error, kMostImplicit));
}

}  // namespace omni
