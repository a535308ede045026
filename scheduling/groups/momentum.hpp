// Asynchrony acts like momentum. Gradients of age tau continue an earlier direction: with a mean
// staleness of S the parameters move as if a momentum of S / (1 + S) were added (Mitliagkas et al.,
// "Asynchrony begets momentum"); for g groups that is 1 - 1/g. The two combine as
//   total = explicit + implicit - explicit * implicit
// So the total that was tuned for one group stays the same if the explicit momentum is lowered. The
// explicit momentum can become negative. The learning rate is unchanged.
#pragma once

#include <algorithm>
#include <cmath>

namespace omni {

enum class Compensation {
  off,     // explicit momentum as tuned, whatever the staleness
  theory,  // implicit momentum from the number of groups
};

struct Momentum {
  double tuned = 0;          // total momentum for one group
  double explicit_part = 0;  // momentum in the updates of replicated parameters
  double implicit_part = 0;  // momentum that asynchrony adds
  double total() const { return explicit_part + implicit_part - explicit_part * implicit_part; }
};

inline double implicit_of_groups(int groups) {
  const double mean_staleness = groups - 1;
  return mean_staleness / (1 + mean_staleness);
}

// Returns a momentum with the total `tuned`, as far as the bound of the explicit part allows.
inline Momentum compensate(double tuned, double implicit) {
  // With a lower explicit momentum an update would undo most of the previous one. Networks are not
  // known to be tuned to less than -0.675.
  constexpr double kLowest = -0.7;
  return {tuned, std::max(1 - (1 - tuned) / (1 - implicit), std::min(kLowest, tuned)), implicit};
}
inline bool is_kept(const Momentum& momentum) {
  return std::abs(momentum.total() - momentum.tuned) < 1e-9;
}

// Returns the number of updates needed, relative to one group. It is 1 while the total momentum is
// the tuned one. With a higher total it is proportional to 1 / (1 - total).
inline double statistical_penalty(const Momentum& momentum) {
  return std::max(1.0, (1 - momentum.tuned) / (1 - momentum.total()));
}

// Returns the momentum of all updates; it is the same for all groups, since they share the
// velocity. `stale`: groups have replicas of trainable parameters; otherwise all of these are
// merged.
inline Momentum momentum_of_groups(Compensation compensation, double tuned, int groups,
                                   bool stale) {
  const double implicit = implicit_of_groups(stale ? groups : 1);
  if (compensation == Compensation::off) return {tuned, tuned, implicit};
  return compensate(tuned, implicit);
}

}  // namespace omni
