// Why a net does not learn, and what to do about it, from the results of an inspection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/result.hpp"
#include "scheduling/health/inspection.hpp"

namespace omni {

enum class Ailment {
  one_class,
  same_data,
  small_steps,
  same_output,
  no_gradient,
  at_chance,
  risen
};

struct Finding {
  Ailment kind;
  int layer = -1;     // -1: not of one layer
  bool sure = false;  // the net cannot learn any more
  std::string where{}, what{}, remedy{};

  Error error() const { return {ErrorKind::diverged, where, what, remedy}; }
};

// How the parameters follow the gradient.
struct Learning {
  double rate = 0, momentum = 0;
  bool adam = false;
  double epsilon = 0;                // of Adam
  std::uint64_t iterations = 10000;  // that count
};

// State of the training: at chance or risen; below chance; or so low that small gradients are
// normal.
enum class LossIs { at_chance, lower, low };

// The first cause found.
std::optional<Finding> diagnose(const Inspection& inspection, const Learning& learning,
                                LossIs loss);

// By how much an iteration changes the parameters: norm of the change / norm of the parameters,
// without the layer's own multiplier of the learning rate.
double relative_step(const InspectedLayer& layer, const Learning& learning);

}  // namespace omni
