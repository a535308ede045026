// Asynchrony acts like momentum. Gradients that are tau updates old carry on the direction of the
// past: with a mean staleness of S the parameters move as if a momentum of S / (1 + S) were added
// (Mitliagkas et al., "Asynchrony begets momentum"), 1 - 1/g for g groups. Both are filters one
// behind the other:
//   total = explicit + implicit - explicit * implicit
// so a total that was tuned for one group is kept by giving the optimizer less explicit momentum,
// even a negative one. The learning rate stays as it is.
#pragma once

namespace omni {

enum class Compensation {
  off,     // explicit momentum as tuned, whatever the staleness
  theory,  // implicit momentum from the number of groups
};

struct Momentum {
  double tuned = 0;          // for one group
  double explicit_part = 0;  // what updates of replicated parameters use
  double implicit_part = 0;  // what asynchrony adds to it
  double total() const { return explicit_part + implicit_part - explicit_part * implicit_part; }
};

double implicit_of_groups(int groups);

// The explicit part that keeps `tuned` in total, where that is possible.
Momentum compensate(double tuned, double implicit);
bool is_kept(const Momentum& momentum);

// How many times as many updates the training needs as with one group: as many while the total is
// what was tuned, then in proportion to the memory of the momentum, 1 / (1 - total).
double statistical_penalty(const Momentum& momentum);

// Of every update: one for all groups, as they share the velocity. `stale`: the groups have
// replicas of what learns; else all that does is merged.
Momentum momentum_of_groups(Compensation compensation, double tuned, int groups, bool stale);

}  // namespace omni
