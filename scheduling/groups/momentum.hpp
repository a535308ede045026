// Asynchrony acts like momentum. Gradients that are tau updates old carry on the direction of the
// past: with a mean staleness of S the parameters move as if a momentum of S / (1 + S) were added
// (Mitliagkas et al., "Asynchrony begets momentum"), 1 - 1/g for g groups. Both are filters one
// behind the other:
//   total = explicit + implicit - explicit * implicit
// so a total that was tuned for one group is kept by giving the optimizer less explicit momentum,
// even a negative one. The learning rate stays as it is.
#pragma once

#include <cstdint>
#include <optional>

#include "scheduling/groups/implicit_momentum.hpp"

namespace omni {

enum class Compensation {
  off,       // explicit momentum as tuned, whatever the staleness
  theory,    // implicit momentum from the number of groups
  measured,  // implicit momentum as the exchanges' staleness and the path of the parameters tell
};

struct Momentum {
  double tuned = 0;          // for one group
  double explicit_part = 0;  // what updates of replicated parameters use
  double implicit_part = 0;  // what asynchrony adds to it
  double total() const { return explicit_part + implicit_part - explicit_part * implicit_part; }
};

double implicit_of_staleness(double mean_staleness);
double implicit_of_groups(int groups);

// The explicit part that keeps `tuned` in total, where that is possible.
Momentum compensate(double tuned, double implicit);
bool is_kept(const Momentum& momentum);

// How many times as many updates the training needs as with one group: as many while the total is
// what was tuned, then in proportion to the memory of the momentum, 1 / (1 - total).
double statistical_penalty(const Momentum& momentum);

// Decides the momentum of every update: one for all groups, as they share the velocity.
class MomentumControl {
 public:
  // `stale`: the groups have replicas of what learns; else all that does is merged.
  MomentumControl(Compensation compensation, double tuned, int groups, bool stale);

  Momentum next() const { return momentum_; }
  // The implicit part as the path alone tells it.
  std::optional<ImplicitMomentum::Estimate> by_path() const { return path_.estimate(); }
  bool measures() const { return compensation_ == Compensation::measured && groups_ > 1; }
  // One update; `path` has no values where it is not known.
  void observe(std::int64_t staleness, const PathPoint& path);

 private:
  double measured_implicit() const;

  Compensation compensation_;
  int groups_;
  Momentum momentum_;
  double mean_staleness_;  // of the last updates; starts at the theory's
  ImplicitMomentum path_;
};

}  // namespace omni
