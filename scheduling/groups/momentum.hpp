// These functions lower the momentum of groups whose gradients are old, as that age acts like
// momentum. Gradients of age tau continue an earlier direction. With a mean staleness of S the
// parameters move as if a momentum of S / (1 + S) were added (Mitliagkas et al., "Asynchrony begets
// momentum"). For g groups that is 1 - 1/g. This implicit momentum and the solver's explicit one
// combine as
//   total = explicit + implicit - explicit * implicit
// In all, a gradient moves the parameters by the step, rate / (1 - explicit momentum), times the
// gradient, whatever its age. So compensation lowers the explicit momentum and raises the rate. The
// total and the step stay those that were tuned for one group. Merged parameters are compensated as
// well. Their gradients are never stale, but depend on activations of layers whose parameters are.
// Without this compensation of merged parameters, some trainings diverged at half of the step that
// is stable with it (docs/results/groups.md).
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

namespace omni {

enum class Compensation {
  off,     // momentum and rate as tuned, for any staleness
  theory,  // implicit momentum from the number of groups
};

struct Momentum {
  double tuned = 0;          // total momentum for one group
  double explicit_part = 0;  // momentum in the updates
  double implicit_part = 0;  // momentum that asynchrony adds
  double total() const { return explicit_part + implicit_part - explicit_part * implicit_part; }
  // Returns the factor of the learning rate that keeps the tuned step.
  double rate_factor() const { return tuned < 1 ? (1 - explicit_part) / (1 - tuned) : 1; }
};

inline double implicit_of_groups(int groups) {
  const double mean_staleness = groups - 1;
  return mean_staleness / (1 + mean_staleness);
}

// Returns a momentum with the total `tuned`, as far as an explicit momentum of at least 0 allows.
// Negative momentum does not help at the same step: see stable_step().
inline Momentum compensate(double tuned, double implicit) {
  return {tuned, std::max(1 - (1 - tuned) / (1 - implicit), std::min(0.0, tuned)), implicit};
}
inline bool is_kept(const Momentum& momentum) {
  return std::abs(momentum.total() - momentum.tuned) < 1e-9;
}

// Returns the largest step, times the curvature of a quadratic loss, that is stable without
// momentum if every gradient is `age` updates old. With 2 groups or more, an explicit momentum from
// -0.7 to 0.9 changes this bound by less than a third. If ages vary as with exponential times,
// larger steps are stable. They are 1.5, 2.3, 3 and 4 times as large for 2, 4, 8 and 16 groups.
inline double stable_step(int age) { return 2 * std::sin(std::numbers::pi / (2 * (2 * age + 1))); }

// Returns the momentum of all updates. It is the same for all groups, since they share the
// velocity. `stale` is false if all trainable parameters are merged; otherwise gradients of
// replicas can be old.
inline Momentum momentum_of_groups(Compensation compensation, double tuned, int groups,
                                   bool stale) {
  const double implicit = implicit_of_groups(stale ? groups : 1);
  if (compensation == Compensation::off) return {tuned, tuned, implicit};
  return compensate(tuned, implicit);
}

}  // namespace omni
