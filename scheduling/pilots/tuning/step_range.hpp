// step_range() finds which steps a net bears, from the losses of a sweep. In a sweep the step grows
// with every iteration until the training diverges.
#pragma once

#include <optional>
#include <vector>

#include "scheduling/pilots/loss_watch.hpp"

namespace omni {

struct StepSweep {
  double first = 0,
         factor = 1;  // step of the first iteration; of later ones by powers of the factor
  std::vector<double> losses{};  // by iteration
  bool diverged = false;         // no finite loss came after the last one, or one output for all
};

struct StepRange {
  std::optional<double> best{};   // step at the lowest loss; none: no loss was clearly below chance
  std::optional<double> fails{};  // the training diverged at this step; none: at no step
};

// Returns true if the mean loss exceeds chance by one per cent and by four standard errors, so the
// step is too large.
bool surely_above_chance(const LossMean& loss, double chance);

// `chance` is the loss of a net that has learned nothing about samples; infinite means that it is
// not known.
StepRange step_range(const StepSweep& sweep, double chance);

}  // namespace omni
