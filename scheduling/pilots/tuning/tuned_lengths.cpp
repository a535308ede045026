// These functions of Tuned decide how long trials are, what they may cost, and when a search comes.
#include <algorithm>

#include "scheduling/pilots/of_first_rank.hpp"
#include "scheduling/pilots/tuning/tuned.hpp"

namespace omni {
namespace {

// Trials may cost the share kMostCost of all iterations, but only kMostCold before something is
// learned. In short trainings kLeastCost and kLeastCold iterations are allowed. If a training has
// no end, its length is estimated as kOutlook times the iterations done, but at least kShortest.
constexpr double kMostCost = 0.11, kMostCold = 0.08;
constexpr std::uint64_t kLeastCost = 220, kLeastCold = 150, kShortest = 4000, kOutlook = 4;
constexpr std::uint64_t kShortestTrial = 20;  // iterations, long enough to judge a momentum of 0.9
constexpr std::uint64_t kFirstSearch = 8;     // see next_search()
constexpr double kEpochSeconds = 3600;        // the longest time between two searches
// The rate is constant and falls to 0 at the end: the cooldown. Trials end with a cooldown as well,
// because the advantage of a large step only shows after it. Without one, small steps would always
// win.
constexpr std::uint64_t kCooldown = 4;  // the cooldown takes 1 / this of the training

}  // namespace

// Returns the iteration of the next search; UINT64_MAX: none. It comes when the training has twice
// as many iterations, but not in the first 1 / kFirstSearch of the training. While nothing is
// learned, it comes after half as many iterations again, but at least 1 / kFirstSearch of the
// training later. It comes after kEpochSeconds at the latest. There is no search if its trials
// would exceed their budget or reach the cooldown.
std::uint64_t Tuned::next_search(std::uint64_t searched) const {
  const std::uint64_t now = iteration();
  // If more groups are faster, the first search that tries them comes earlier. Before it, the
  // training takes 1 / kFirstSearch of the time that all iterations would take in such groups.
  const auto first = static_cast<std::uint64_t>(static_cast<double>(horizon()) / kFirstSearch /
                                                trials_->speedup());
  std::uint64_t next =
      tuning_.warm ? std::max(2 * now, first) : now + std::max(now / 2, horizon() / kFirstSearch);
  if (const double seconds = of_first_rank(training_->seconds()); seconds > 0 && now > 0) {
    const double per_iteration = seconds / static_cast<double>(now);
    next = std::min(next,
                    now + static_cast<std::uint64_t>(std::max(1.0, kEpochSeconds / per_iteration)));
  }
  const bool affordable = trials_->can_afford(2 * searched, budget());
  return affordable && next + 4 * searched < cooldown_start() ? next : UINT64_MAX;
}

std::uint64_t Tuned::left() const {
  const std::uint64_t end = training_->options().iterations;
  return end == 0 ? UINT64_MAX - iteration() : end - std::min(end, iteration());
}

std::uint64_t Tuned::horizon() const {
  const std::uint64_t end = training_->options().iterations;
  return end != 0 ? end : std::max(kShortest, kOutlook * iteration());
}

// There is no cooldown if the solver's policy changes the rate itself.
std::uint64_t Tuned::cooldown_start() const {
  const std::uint64_t end = training_->options().iterations;
  const bool constant = training_->solver().policy == RatePolicy::constant;
  return end == 0 || !constant ? UINT64_MAX : end - end / kCooldown;
}

std::uint64_t Tuned::length() const {
  if (tuning_.warm) return std::clamp<std::uint64_t>(horizon() / 100, kShortestTrial, 2000);
  // Before the net learns, trials get longer as the number of iterations grows.
  return std::clamp<std::uint64_t>(std::max(horizon() / 200, iteration() / 16), kShortestTrial,
                                   400);
}

bool Tuned::search_fits() const {
  return iteration() + 4 * length() < cooldown_start() &&
         trials_->can_afford(2 * length(), budget());
}

Trials::Budget Tuned::budget() const {
  const auto share = [this](double most, std::uint64_t least) {
    return std::max(least, static_cast<std::uint64_t>(most * static_cast<double>(horizon())));
  };
  return {.length = length(),
          .allowed = tuning_.warm ? share(kMostCost, kLeastCost) : share(kMostCold, kLeastCold)};
}

std::uint64_t Tuned::window() const {
  return std::clamp<std::uint64_t>(1024 / training_->groups().net().options().batch, 16, 64);
}

std::uint64_t Tuned::stretch() const {
  return std::max<std::uint64_t>(2 * window(), iteration() / 8);
}

}  // namespace omni
