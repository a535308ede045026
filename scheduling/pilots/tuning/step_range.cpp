#include "scheduling/pilots/tuning/step_range.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace omni {

bool surely_above_chance(const LossMean& loss, double chance) {
  return loss.mean - chance > std::max(0.01 * chance, 4 * loss.error());
}

StepRange step_range(const StepSweep& sweep, double chance) {
  constexpr std::size_t kWindow = 5, kLast = 3;  // losses
  constexpr double kExplodes = 1.5;  // factor of the loss at first or at chance, the larger one
  const std::span<const double> losses(sweep.losses);
  const auto step = [&](std::size_t i) {
    return sweep.first * std::pow(sweep.factor, static_cast<double>(i));
  };
  StepRange range;
  const std::size_t full = std::min(kWindow, losses.size());
  const double first = full > 0 ? mean_of(losses.first(full)).mean : INFINITY;
  const double level = std::isfinite(chance) ? std::max(first, chance) : first;
  double lowest = kNearChance * (std::isfinite(chance) ? std::min(first, chance) : first);
  for (std::size_t end = kLast; end <= losses.size() && !range.fails; ++end) {
    if (!(mean_of(losses.subspan(end - kLast, kLast)).mean < kExplodes * level))
      range.fails = step(end - 1);
    if (range.fails || end < kWindow) continue;
    const double mean = mean_of(losses.subspan(end - kWindow, kWindow)).mean;
    if (!(mean < lowest)) continue;
    lowest = mean;
    range.best = step(end - 1 - kWindow / 2);
  }
  if (!range.fails && sweep.diverged) range.fails = step(losses.size());
  return range;
}

}  // namespace omni
