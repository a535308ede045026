#include "scheduling/policy/placement.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

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

// Who is spared a task may have to wait for what it updates, but not longer than the task takes.
bool keeps_others_waiting(const Candidate& candidate, std::span<const Candidate> all) {
  return std::ranges::any_of(all, [&](const Candidate& other) {  // false where NaN
    return candidate.back - other.back > other.length && !is_back_before(candidate, other);
  });
}

// Whatever its length, so nobody needs to know it better.
bool is_in_the_way(const Candidate& candidate, std::span<const Candidate> all) {
  return burdens_links(candidate, all) || keeps_others_waiting(candidate, all);
}

double cost_of_look(const Candidate& candidate) {
  return candidate.transfer + std::min(length_or_guess(candidate), kPlausible * candidate.guess);
}

}  // namespace

bool is_back_before(const Candidate& candidate, const Candidate& other) {
  return candidate.ready + candidate.transfer + candidate.length + candidate.back <= other.ready;
}

std::size_t Placement::choose(std::span<const Candidate> candidates, double now) {
  const auto known = [](const Candidate& each) { return !std::isnan(each.length); };
  const bool any_known = std::ranges::any_of(candidates, known);
  const auto rank = [&](const Candidate& each) {
    return std::tuple(any_known && !known(each), is_in_the_way(each, candidates),
                      each.wait + each.transfer + length_or_guess(each));
  };
  const std::size_t best = std::ranges::min_element(candidates, {}, rank) - candidates.begin();
  const bool second_look = ++choices_ % kSecondLooks == 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& each = candidates[i];
    if (i == best || each.wait > 0 || (known(each) && !second_look) ||
        is_in_the_way(each, candidates))
      continue;
    const double cost = cost_of_look(each);
    if (spent_ + cost > kShareOfTime * now) continue;
    spent_ += cost;
    return i;
  }
  return best;
}

}  // namespace omni
