#include "scheduling/rate_policy.hpp"

#include <cmath>
#include <numbers>

#include "runtime/rng.hpp"

namespace omni {

namespace {

// From learning_rate down to its minimum along half a cosine, again and again, each time slower.
// The last batch of a cycle has the minimum.
double cosine_with_restarts(const SolverOptions& solver, double batch) {
  double length = solver.cycle, start = 0;
  if (solver.cycle_factor == 1) start = std::fmax(0.0, std::ceil(batch / length) - 1) * length;
  while (start + length < batch) {
    start += length;
    length *= solver.cycle_factor;
  }
  const double least = solver.learning_rate_min, range = solver.learning_rate - least;
  return least + range / 2 * (1 + std::cos(std::numbers::pi * (batch - start) / length));
}

}  // namespace

float learning_rate(const SolverOptions& solver, std::uint64_t seed, std::uint64_t iteration) {
  const double base = solver.learning_rate;
  const auto batch = static_cast<double>(iteration);
  if (iteration < static_cast<std::uint64_t>(solver.burn_in))
    return static_cast<float>(base * std::pow(batch / solver.burn_in, solver.power));

  double rate = base;
  switch (solver.policy) {
    case RatePolicy::constant: break;
    case RatePolicy::step: rate *= std::pow(solver.scale, std::floor(batch / solver.step)); break;
    case RatePolicy::steps:
      for (std::size_t i = 0; i < solver.steps.size(); ++i)
        if (static_cast<std::uint64_t>(solver.steps[i]) <= iteration) rate *= solver.scales[i];
      break;
    case RatePolicy::exp: rate *= std::pow(solver.gamma, batch); break;
    case RatePolicy::poly:
      // Past the end (a longer run than the policy was made for) the rate stays at zero.
      rate *= std::pow(std::fmax(0.0, 1 - batch / solver.max_batches), solver.power);
      break;
    case RatePolicy::sigmoid: rate /= 1 + std::exp(solver.gamma * (batch - solver.step)); break;
    case RatePolicy::random:
      rate *= std::pow(Draws(Philox(seed, RandomStream::rate), iteration).uniform(), solver.power);
      break;
    case RatePolicy::sgdr: return static_cast<float>(cosine_with_restarts(solver, batch));
  }
  return static_cast<float>(rate);
}

}  // namespace omni
