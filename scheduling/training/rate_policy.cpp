#include "scheduling/training/rate_policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <utility>

#include "runtime/rng.hpp"

namespace omni {

namespace {

// Returns the rate of a cosine policy with restarts. In each cycle it falls along half a cosine
// from learning_rate to learning_rate_min, which the last mini-batch of the cycle has. A cycle is
// cycle_factor times as long as the one before.
double cosine_with_restarts(const SolverOptions& solver, double batch) {
  double length = solver.cycle != 0 ? solver.cycle : solver.max_batches, start = 0;
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
  if (iteration < static_cast<std::uint64_t>(solver.burn_in))
    return static_cast<float>(
        base * std::pow(static_cast<double>(iteration) / solver.burn_in, solver.power));
  const double batch = static_cast<double>(iteration) + (solver.first - 1);

  double rate = base;
  switch (solver.policy) {
    case RatePolicy::constant: break;
    case RatePolicy::step: rate *= std::pow(solver.scale, std::floor(batch / solver.step)); break;
    case RatePolicy::steps:
      for (std::size_t i = 0; i < solver.steps.size(); ++i)
        if (static_cast<std::uint64_t>(solver.steps[i]) <= static_cast<std::uint64_t>(batch))
          rate *= solver.scales[i];
      break;
    case RatePolicy::exp: rate *= std::pow(solver.gamma, batch); break;
    case RatePolicy::poly:
      // If a training is longer than max_batches, the rate stays at zero after max_batches.
      rate *= std::pow(std::fmax(0.0, 1 - batch / solver.max_batches), solver.power);
      break;
    case RatePolicy::sigmoid: rate /= 1 + std::exp(solver.gamma * (batch - solver.step)); break;
    case RatePolicy::random:
      rate *= std::pow(Draws(Philox(seed, RandomStream::rate), iteration).uniform(), solver.power);
      break;
    case RatePolicy::sgdr: return static_cast<float>(cosine_with_restarts(solver, batch));
    case RatePolicy::inv: rate *= std::pow(1 + solver.gamma * batch, -solver.power); break;
  }
  return static_cast<float>(rate);
}

SolverOptions for_length(SolverOptions solver, std::uint64_t iterations) {
  solver.max_batches =
      static_cast<int>(std::min<std::uint64_t>(iterations, std::numeric_limits<int>::max()));
  return solver;
}

bool follows_length(const SolverOptions& solver) {
  return solver.policy == RatePolicy::poly ||
         (solver.policy == RatePolicy::sgdr && solver.cycle == 0);
}

std::optional<std::uint64_t> vanishes_at(const SolverOptions& solver, std::uint64_t seed,
                                         std::uint64_t iterations, float least) {
  const bool may_fall = solver.policy == RatePolicy::step || solver.policy == RatePolicy::steps ||
                        solver.policy == RatePolicy::exp || solver.policy == RatePolicy::sigmoid ||
                        solver.policy == RatePolicy::inv;
  std::uint64_t low = std::max(1, solver.burn_in),
                high = iterations - std::min(iterations, std::uint64_t{1});
  const auto vanished = [&](std::uint64_t at) { return learning_rate(solver, seed, at) < least; };
  if (!may_fall || has_vanished(solver.learning_rate) || low > high || !vanished(high)) return {};
  while (low < high) {  // bisection: a rate that has vanished stays so
    const std::uint64_t middle = low + (high - low) / 2;
    if (vanished(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

std::vector<UnsuitedKey> unsuited_keys(const SolverOptions& solver, std::uint64_t iterations,
                                       std::uint64_t designed) {
  std::vector<UnsuitedKey> found;
  const auto scaled = [&](int value) {
    const double share = static_cast<double>(value) / static_cast<double>(designed);
    return std::max<std::int64_t>(1, std::llround(share * static_cast<double>(iterations)));
  };
  const auto add = [&](const char* key, std::span<const int> values, bool always) {
    const auto beyond = [&](int value) { return static_cast<std::uint64_t>(value) >= iterations; };
    const bool late = std::ranges::any_of(values, beyond);
    // `early` is true if half of the training or more comes after the designed length, and after
    // all values. Values beyond it were not meant for the designed length.
    const auto in_first_half = [&](int value) { return std::cmp_less(value, iterations / 2); };
    const bool early = !always && designed != 0 && iterations / 2 >= designed &&
                       std::ranges::all_of(values, in_first_half);
    if (!late && !early) return;
    UnsuitedKey each{.key = key, .late = late};
    for (const int value : values) {
      each.value += fmt::format("{}{}", each.value.empty() ? "" : ",", value);
      if (designed != 0 && designed != iterations)
        each.better += fmt::format("{}{}", each.better.empty() ? "" : ",", scaled(value));
    }
    found.push_back(std::move(each));
  };
  if (solver.burn_in > 0) add("burn_in", std::span(&solver.burn_in, 1), true);
  if (solver.policy == RatePolicy::step || solver.policy == RatePolicy::sigmoid)
    add("step", std::span(&solver.step, 1), false);
  if (solver.policy == RatePolicy::steps) add("steps", solver.steps, false);
  if (solver.policy == RatePolicy::sgdr && solver.cycle != 0)
    add("sgdr_cycle", std::span(&solver.cycle, 1), true);
  return found;
}

}  // namespace omni
