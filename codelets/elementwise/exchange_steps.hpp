// One value's step of an exchange, for the loops of the CPU and of the GPU, and those of the CPU.
// What all values have in common is calculated once, in the constructors.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "codelets/elementwise/activation_functors.hpp"
#include "codelets/elementwise/exchange.hpp"

namespace omni {

struct MomentumStep {
  float learning_rate, momentum, decay, gradient_scale;

  explicit MomentumStep(const ExchangeArgs& args)
      : learning_rate(args.learning_rate),
        momentum(args.momentum),
        decay(args.decay),
        gradient_scale(args.gradient_scale) {}

  OMNI_HD void operator()(float& master, float diff, float& velocity) const {
    const float gradient = gradient_scale * diff + decay * master;
    velocity = momentum * velocity + gradient;
    master -= learning_rate * velocity;
  }
};

struct AdamStep {
  float rate, momentum, decay, gradient_scale, square_memory, square_scale, epsilon;

  explicit AdamStep(const ExchangeArgs& args)
      : rate(static_cast<float>(args.learning_rate / bias_correction(args.momentum, args.number))),
        momentum(args.momentum),
        decay(args.decay),
        gradient_scale(args.gradient_scale),
        square_memory(args.square_memory),
        square_scale(static_cast<float>(1 / bias_correction(args.square_memory, args.number))),
        epsilon(args.epsilon * args.gradient_scale) {}

  OMNI_HD void operator()(float& master, float diff, float& velocity, float& mean_square) const {
    const float gradient = gradient_scale * diff + decay * master;
    velocity = momentum * velocity + (1 - momentum) * gradient;
    mean_square = square_memory * mean_square + (1 - square_memory) * gradient * gradient;
    master -= rate * velocity / (std::sqrt(square_scale * mean_square) + epsilon);
  }
};

// Calls use(step) with what the arguments ask for.
void with_step(const ExchangeArgs& args, auto use) {
  if (args.adam)
    use(AdamStep(args));
  else
    use(MomentumStep(args));
}

// `count` values. The mean square is read only by Adam.
template <class Step>
void update_values(const Step& step, std::int64_t count, bool clears, float* __restrict master,
                   float* __restrict diff, float* __restrict velocity,
                   float* __restrict mean_square) {
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<Step, AdamStep>)
      step(master[i], diff[i], velocity[i], mean_square[i]);
    else
      step(master[i], diff[i], velocity[i]);
    if (clears) diff[i] = 0;
  }
}

}  // namespace omni
