#include "scheduling/policy/placement.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace omni {
namespace {

// A length may be measured wrongly, for example while other programs used the machine. That kind of
// workers would then never get tasks of the codelet again. So one task in kSecondLooks may go to
// another kind that is idle. StarPU resets a model that is often wrong.
constexpr std::uint64_t kSecondLooks = 100;
// Tasks on a kind that is not predicted to be the fastest, or whose length is not measured, may
// take this share of all time. A convolution of a large batch takes a thousand times as long on a
// core as on a GPU.
constexpr double kShareOfTime = 0.01;
// A length of more than kPlausible times the guess is probably wrong, so the budget is charged at
// most this much for a try. Otherwise a model that learned 85 ms for a task of 0.2 ms would stay
// wrong for minutes, until the budget allowed enough tries.
constexpr double kPlausible = 10;

// The transfer to a kind may exceed that to another kind by at most kMostTransfer times the task's
// length on the other kind. All tasks share the links, and other tasks fetch the data back. A core
// that sums up a large gradient saves a GPU almost no time.
constexpr double kMostTransfer = 32;

double length_or_guess(const Candidate& candidate) {
  return std::isnan(candidate.length) ? candidate.guess : candidate.length;
}

bool burdens_links(const Candidate& candidate, std::span<const Candidate> all) {
  return std::ranges::any_of(all, [&](const Candidate& other) {  // false if a length is NaN
    return candidate.transfer - other.transfer > kMostTransfer * other.length;
  });
}

// Returns true if another kind would get the updated data too late: by more than the task's length
// there, and after it could have begun the task.
bool keeps_others_waiting(const Candidate& candidate, std::span<const Candidate> all) {
  return std::ranges::any_of(all, [&](const Candidate& other) {  // false where NaN
    return candidate.back - other.back > other.length && !is_back_before(candidate, other);
  });
}

// A candidate that is in the way is never tried. It is chosen only if all candidates are in the
// way, or if the length is not known on those that are not.
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
