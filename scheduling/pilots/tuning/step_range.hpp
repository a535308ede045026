// step_range() finds the best step and the step at which the training diverges, from the losses of
// a sweep. In a sweep the step grows with every iteration until the training diverges.
#pragma once

#include <optional>
#include <vector>

#include "scheduling/pilots/loss_watch.hpp"

namespace omni {

struct StepSweep {
  // `first` is the step of the first iteration. Each later step is `factor` times the one before.
  double first = 0, factor = 1;
  std::vector<double> losses{};  // by iteration
  // True: after the last of `losses` the training diverged, or all images had the same output.
  bool diverged = false;
};

struct StepRange {
  // `best` is the step of the lowest loss. None: no loss was clearly below chance and the loss at
  // first.
  std::optional<double> best{};
  std::optional<double> fails{};  // the training diverged at this step; none: at no step
};

// Returns true if the mean loss exceeds chance by one per cent and by four standard errors.
bool surely_above_chance(const LossMean& loss, double chance);

// `chance` is the loss of a net that has learned nothing about samples; infinite means that it is
// not known.
StepRange step_range(const StepSweep& sweep, double chance);

}  // namespace omni
