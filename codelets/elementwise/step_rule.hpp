// How a gradient changes a parameter. codelets/elementwise/exchange.hpp has the formulas.
#pragma once

#include <cstdint>

namespace omni {

// usual: momentum, or Adam, as Darknet has them; rated: the rate is part of the velocity, and the
// epsilon of Adam is added to the root of the uncorrected mean square.
enum class StepRule : std::uint8_t { usual, rated, nesterov, adagrad, rmsprop, adadelta };

// Returns whether a rule keeps a mean square beside the velocity. `adam` says that the rule is
// Adam.
constexpr bool keeps_two_states(StepRule rule, bool adam) {
  return adam || rule == StepRule::adadelta;
}
// Returns whether a rule has a momentum, to which the asynchrony of groups adds.
constexpr bool has_momentum(StepRule rule, bool adam) {
  return !adam && rule <= StepRule::nesterov;
}

}  // namespace omni
