#include "scheduling/groups/momentum.hpp"

#include <algorithm>
#include <cmath>

namespace omni {
namespace {

// Below it an update undoes most of the one before; nobody tuned a network to less than -0.675.
constexpr double kLowest = -0.7;

// Of the measured compensation: rounds of all groups that means are over; how far the theory may be
// off; the part of the way to the momentum aimed at that an update goes, YellowFin's.
constexpr double kRounds = 16, kDoubt = 0.02, kGain = 0.01;
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
      stale_updates_(momentum_.implicit_part),
      path_(groups_) {
  if (compensation != Compensation::off) momentum_ = compensate(tuned, momentum_.implicit_part);
}

void MomentumControl::observe(std::int64_t staleness, const PathPoint& path) {
  if (!measures()) return;
  const double weight = 1 / (kRounds * groups_);
  mean_staleness_ += weight * (static_cast<double>(staleness) - mean_staleness_);
  stale_updates_ += weight * ((staleness > 0 ? 1.0 : 0.0) - stale_updates_);
  if (!path.values.empty()) path_.add(path);
  momentum_.implicit_part = measured_implicit();
  const double aim = compensate(momentum_.tuned, momentum_.implicit_part).explicit_part;
  momentum_.explicit_part += kGain * (aim - momentum_.explicit_part);
}

// Two limits follow from how the staleness is distributed: where the parameters drift, what counts
// is its mean; where noise drives them, how much of an update's path the next one has seen, too.
// For exponential service times both are 1 - 1/g. What the path says counts for more the surer it
// is than those are.
double MomentumControl::measured_implicit() const {
  const double drift = implicit_of_staleness(mean_staleness_);
  const double noise = mean_staleness_ > 0 ? 1 - stale_updates_ / mean_staleness_ : 0;
  const auto path = path_.estimate();
  if (!path) return drift;
  const double doubt = std::max(kDoubt, drift - noise);
  const double trust = doubt * doubt / (doubt * doubt + path->error * path->error);
  return std::clamp(drift + trust * (path->value - drift), 0.0, kMostImplicit);
}

}  // namespace omni
