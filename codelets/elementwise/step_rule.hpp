// This header has the rules by which a gradient changes a parameter.
// codelets/elementwise/exchange.hpp has their formulas.
#pragma once

#include <cstdint>

namespace omni {

// `usual` is momentum, or Adam, as Darknet has them. In `rated`, the rate is part of the velocity,
// and Adam's epsilon is added to the root of the uncorrected mean square.
enum class StepRule : std::uint8_t { usual, rated, nesterov, adagrad, rmsprop, adadelta };

// Returns whether a rule keeps a mean square besides the velocity. `adam` says that the rule is
// Adam.
constexpr bool keeps_two_states(StepRule rule, bool adam) {
  return adam || rule == StepRule::adadelta;
}
// Returns whether a rule has a momentum, to which the asynchrony of groups adds.
constexpr bool has_momentum(StepRule rule, bool adam) {
  return !adam && rule <= StepRule::nesterov;
}

}  // namespace omni
