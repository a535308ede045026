#include "scheduling/policy/placement.hpp"

#include <algorithm>
#include <cmath>

namespace omni {
namespace {

// One number that was measured wrongly, say while others used the machine, would keep a kind of
// workers from a codelet for ever: nothing would measure it again. So one task in so many goes to
// another kind that has nothing to do, and StarPU forgets a model that misses too often.
constexpr std::uint64_t kSecondLooks = 100;
// What such looks, and those at what no model knows, may cost at most: this share of all time.
// A convolution of a large batch takes a thousand times as long on a core as on a GPU.
constexpr double kShareOfTime = 0.01;
// What is said to take so many times as long as guessed was rather measured wrongly: a look at it
// is not counted as longer. Else a model that has learnt 85 ms for what takes 0.2 would have to be
// wrong for minutes before the looks that it needs to forget could be afforded.
constexpr double kPlausible = 10;

// The links must not get to do more than so many times what another kind, which has more of the
// data, is spared: they are everybody's, and what a task fetches, others will fetch back. A core
// that sums up a large gradient spares a GPU next to nothing.
constexpr double kMostTransfer = 32;

double length_or_guess(const Candidate& candidate) {
  return std::isnan(candidate.length) ? candidate.guess : candidate.length;
}

bool burdens_links(const Candidate& candidate, std::span<const Candidate> all) {
  return std::ranges::any_of(all, [&](const Candidate& other) {  // false where NaN
    return candidate.transfer - other.transfer > kMostTransfer * other.length;
  });
}

double cost_of_look(const Candidate& candidate) {
  return candidate.transfer + std::min(length_or_guess(candidate), kPlausible * candidate.guess);
}

}  // namespace

bool Placement::can_afford(double time, double now) {
  if (spent_ + time > kShareOfTime * now) return false;
  spent_ += time;
  return true;
}

std::size_t Placement::choose(std::span<const Candidate> candidates, double now) {
  const auto known = [](const Candidate& each) { return !std::isnan(each.length); };
  const bool any_known = std::any_of(candidates.begin(), candidates.end(), known);
  std::size_t best = candidates.size();
  double earliest = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& each = candidates[i];
    if ((any_known && !known(each)) || burdens_links(each, candidates)) continue;
    const double finish = each.wait + each.transfer + length_or_guess(each);
    if (best == candidates.size() || finish < earliest) {
      best = i;
      earliest = finish;
    }
  }
  const bool second_look = ++choices_ % kSecondLooks == 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& each = candidates[i];
    if (i == best || each.wait > 0 || (known(each) && !second_look)) continue;
    if (can_afford(cost_of_look(each), now)) return i;
  }
  return best;
}

}  // namespace omni
