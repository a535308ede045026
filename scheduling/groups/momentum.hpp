// Asynchrony acts like momentum. Gradients of age tau continue an earlier direction: with a mean
// staleness of S the parameters move as if a momentum of S / (1 + S) were added (Mitliagkas et al.,
// "Asynchrony begets momentum"); for g groups that is 1 - 1/g. The two combine as
//   total = explicit + implicit - explicit * implicit
// So a total that was tuned for one group is kept with less explicit momentum, even a negative one.
// The learning rate is unchanged.
#pragma once

namespace omni {

enum class Compensation {
  off,     // explicit momentum as tuned, whatever the staleness
  theory,  // implicit momentum from the number of groups
};

struct Momentum {
  double tuned = 0;          // for one group
  double explicit_part = 0;  // of the updates of replicated parameters
  double implicit_part = 0;  // what asynchrony adds to it
  double total() const { return explicit_part + implicit_part - explicit_part * implicit_part; }
};

double implicit_of_groups(int groups);

// The explicit momentum for a total of `tuned`, within its bounds.
Momentum compensate(double tuned, double implicit);
bool is_kept(const Momentum& momentum);

// Updates needed, relative to one group: 1 while the total momentum is the tuned one; beyond it
// proportional to the memory of the momentum, 1 / (1 - total).
double statistical_penalty(const Momentum& momentum);

// Momentum of every update; one for all groups, since they share the velocity. `stale`: groups have
// replicas of trainable parameters; else all of those are merged.
Momentum momentum_of_groups(Compensation compensation, double tuned, int groups, bool stale);

}  // namespace omni
