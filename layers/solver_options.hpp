// SolverOptions are the numbers that a training's solver uses. The policies of the learning rate
// are explained in scheduling/training/rate_policy.hpp.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "codelets/elementwise/step_rule.hpp"

namespace omni {

enum class RatePolicy : int { constant, step, steps, exp, poly, sigmoid, random, sgdr, inv };
inline constexpr std::array<std::string_view, 9> kRatePolicyNames{
    "constant", "step", "steps", "exp", "poly", "sigmoid", "random", "sgdr", "inv"};

struct SolverOptions {
  float learning_rate = 0.001f;
  float momentum = 0.9f;  // with Adam: B1
  float decay = 0.0001f;
  bool adam = false;
  StepRule rule = StepRule::usual;
  bool decay_by_sign = false;                     // L1 in place of L2; not with usual or Adam
  float square_memory = 0.999f, epsilon = 1e-7f;  // Adam's B2 and eps; Caffe's rms_decay and delta
  // The L2 norm of all gradients together is at most this, before they get the decay; 0: any. A
  // gradient is the mean over the images of an update.
  float clip_gradients = 0;
  RatePolicy policy = RatePolicy::constant;
  int first = 1;  // number of the first update in the policies' formulas
  int burn_in = 0;
  float power = 4, gamma = 1, scale = 1;
  int step = 1;
  std::vector<int> steps;
  std::vector<float> scales;
  int max_batches = 0;  // 0: for ever
  float learning_rate_min = 1e-5f;
  // The policy sgdr uses these numbers. `cycle` is the number of batches of the first cycle (0:
  // max_batches), and `cycle_factor` the factor by which each next cycle is longer.
  int cycle = 0, cycle_factor = 2;
};

}  // namespace omni
